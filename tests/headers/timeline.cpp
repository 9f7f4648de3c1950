// Tracks of a timeline, with PK_TIMELINE and without.
#include <type_traits>

#include "mpk/timeline.hpp"
#include "support/suite.hpp"

namespace {

using mpk::Activity;
using mpk::TimelineTrack;

#if PK_TIMELINE

constexpr std::uint32_t workers = 2, capacity = 4, tracks = workers * mpk::timeline_tracks;

struct Buffers {
    mpk::TimelineCursor cursors[tracks] = {};
    mpk::TimelineRecord records[tracks * capacity] = {};

    mpk::Machine machine() {
        mpk::Machine m = {};
        m.timeline = {cursors, records, capacity};
        return m;
    }
    const mpk::TimelineCursor& cursor(std::uint32_t worker, std::uint32_t track) const {
        return cursors[worker * mpk::timeline_tracks + track];
    }
    const mpk::TimelineRecord* track(std::uint32_t worker, std::uint32_t track) const {
        return records + (worker * mpk::timeline_tracks + track) * capacity;
    }
    std::uint32_t kept() const {
        std::uint32_t count = 0;
        for (const auto& cursor : cursors) count += cursor.kept;
        return count;
    }
};

bool same(const mpk::TimelineRecord& record, Activity activity, std::uint32_t task, std::uint32_t step,
          std::uint32_t amount) {
    return record.activity == activity && record.task == task && record.step == step &&
           record.amount == amount;
}

void cases(testing::Suite& suite) {
    Buffers buffers;
    const mpk::Machine m = buffers.machine();
    {
        TimelineTrack loader(m, 1, mpk::loader_track, true), last(m, 1, mpk::timeline_tracks - 1, true);
        const TimelineTrack::Time begin = loader.now();
        last.record(Activity::wait_event, last.now(), 9, 3, 17);
        loader.record(Activity::stream, begin, 5, 2, 4096);
        TimelineTrack other(m, 0, mpk::worker_track, false);
        other.record(Activity::task, other.now(), 1, 1);
    }
    const mpk::TimelineRecord& stream = *buffers.track(1, mpk::loader_track);
    const mpk::TimelineRecord& wait = *buffers.track(1, mpk::timeline_tracks - 1);
    suite.check("each track has its own records", buffers.kept() == 2 &&
                                                      same(stream, Activity::stream, 5, 2, 4096) &&
                                                      same(wait, Activity::wait_event, 9, 3, 17));
    const mpk::ClockPair first = buffers.cursor(1, mpk::loader_track).first;
    const mpk::ClockPair end = buffers.cursor(1, mpk::loader_track).last;
    suite.check("times lie between those of the track",
                first.ns != 0 && first.ticks <= stream.begin && stream.begin <= wait.begin &&
                    wait.end <= stream.end && stream.end <= end.ticks && first.ns <= end.ns);
    suite.check("a thread that does not write leaves no trace", buffers.cursor(0, 0).opened == 0);

    for (std::uint32_t step = 3; step < 9; ++step) {
        TimelineTrack again(m, 1, mpk::loader_track, true);
        again.record(Activity::store, again.now(), step, step);
    }
    const mpk::TimelineCursor& full = buffers.cursor(1, mpk::loader_track);
    suite.check(
        "a later object goes on until the buffer is full",
        full.kept == capacity && same(buffers.track(1, mpk::loader_track)[3], Activity::store, 5, 5, 0));
    suite.check("what does not fit is counted", full.dropped == 3 && full.dropped_step == 6);
    suite.check("the next track is as it was",
                buffers.cursor(1, mpk::storer_track).kept == 0 &&
                    same(*buffers.track(1, mpk::storer_track), Activity::task, 0, 0, 0));
    suite.check("the clock of the first object counts",
                full.first.ticks == first.ticks && full.last.ns >= end.ns);

    mpk::Machine none = {};
    TimelineTrack nowhere(none, 0, 0, true);
    nowhere.record(Activity::task, nowhere.now(), 0, 0);
    suite.check("without buffers nothing is recorded", buffers.kept() == 1 + capacity);
}

#else

static_assert(std::is_empty_v<TimelineTrack> && std::is_empty_v<TimelineTrack::Time>);
static_assert(std::is_trivially_destructible_v<TimelineTrack>);

template <class Machine>
concept has_timeline = requires(Machine m) { m.timeline; };
static_assert(!has_timeline<mpk::Machine>);

void cases(testing::Suite& suite) {
    const mpk::Machine m = {};
    TimelineTrack track(m, 0, mpk::worker_track, true);
    track.record(Activity::task, track.now(), 0, 0);
    suite.check("the same calls compile to nothing", true);
}

#endif

}  // namespace

int main() {
    testing::Suite suite;
    cases(suite);
    return suite.finish();
}
