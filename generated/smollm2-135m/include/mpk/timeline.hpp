// Recording what a worker does and when. Without PK_TIMELINE all of it compiles to nothing.
//
// A warp makes a TimelineTrack of its own once in a call, asks it for the time before an activity, and
// records the activity after it:
//     TimelineTrack track(m, worker, loader_track, elected);
//     const TimelineTrack::Time begin = track.now();
//     ...
//     track.record(Activity::stream, begin, task, step, bytes);
#pragma once

#include "mpk/machine.hpp"
#include "pk/platform/clock.hpp"

namespace mpk {

#if PK_TIMELINE

namespace detail {

// GPU: the clock that SMs share moves in jumps, of up to a microsecond on some drivers, so it is read right
// after one.
PK_DEVICE ClockPair clock_pair() {
#if PK_CUDA
    constexpr std::uint64_t longest = 1 << 16;  // ticks, should the clock stand still
    const std::uint64_t start = pk::ticks(), before = pk::now_ns();
    std::uint64_t ns = before;
    while (ns == before && pk::ticks() - start < longest) ns = pk::now_ns();
    return {pk::ticks(), ns};
#else
    const std::uint64_t ns = pk::now_ns();
    return {ns, ns};
#endif
}

}  // namespace detail

class TimelineTrack {
public:
    using Time = std::uint64_t;

    // Several threads may make the object and call it: the one with `writes` set records, for the others
    // nothing happens. It goes on after the records of an earlier object of the same track and call.
    PK_DEVICE TimelineTrack(const Machine& m, std::uint32_t worker, std::uint32_t track, bool writes) {
        if (!writes || m.timeline.capacity == 0) return;
        const std::uint32_t number = worker * timeline_tracks + track;
        cursor_ = &m.timeline.cursors[number];
        records_ = m.timeline.records + std::uint64_t{number} * m.timeline.capacity;
        capacity_ = m.timeline.capacity;
        kept_ = first_ = cursor_->kept;
        dropped_ = cursor_->dropped;
        opened_ = detail::clock_pair();
        if (cursor_->opened != 0) return;
        cursor_->first = {opened_.ns, opened_.ns};
        cursor_->opened = 1;
    }
    TimelineTrack(const TimelineTrack&) = delete;
    TimelineTrack& operator=(const TimelineTrack&) = delete;

    // Only now the counts are in memory.
    PK_DEVICE ~TimelineTrack() {
        if (cursor_ == nullptr) return;
        cursor_->kept = kept_;
        cursor_->dropped = dropped_;
        // To nanoseconds here, as the next kernel of the call may have this worker on another SM, whose clock
        // has nothing to do with this one's.
        const ClockPair closed = detail::clock_pair();
        const double ticks = static_cast<double>(closed.ticks - opened_.ticks);
        const double rate = ticks > 0 ? static_cast<double>(closed.ns - opened_.ns) / ticks : 1.0;
        const auto to_ns = [&](Time time) {
            return opened_.ns + static_cast<std::uint64_t>(static_cast<double>(time - opened_.ticks) * rate);
        };
        for (std::uint32_t i = first_; i < kept_; ++i) {
            records_[i].begin = to_ns(records_[i].begin);
            records_[i].end = to_ns(records_[i].end);
        }
        cursor_->last = {closed.ns, closed.ns};
    }

    PK_DEVICE Time now() const { return cursor_ == nullptr ? 0 : pk::ticks(); }

    // An activity of `task` (no_task: none) in `step` that began at `begin` and ends now. amount:
    // wait_event: the event; else the bytes moved, 0 where that is not known.
    PK_DEVICE void record(Activity activity, Time begin, std::uint32_t task, std::uint32_t step,
                          std::uint32_t amount = 0) {
        if (cursor_ == nullptr) return;
        const Time end = pk::ticks();
        if (kept_ == capacity_) {
            if (dropped_++ == 0) cursor_->dropped_step = step;
            return;
        }
        records_[kept_++] = {begin, end, task, step, amount, activity};
    }

private:
    TimelineCursor* cursor_ = nullptr;  // null: this thread does not record
    TimelineRecord* records_ = nullptr;
    std::uint32_t capacity_ = 0, first_ = 0, kept_ = 0, dropped_ = 0;
    ClockPair opened_ = {};
};

#else

class TimelineTrack {
public:
    struct Time {};

    PK_DEVICE TimelineTrack(const Machine&, std::uint32_t, std::uint32_t, bool) {}
    TimelineTrack(const TimelineTrack&) = delete;
    TimelineTrack& operator=(const TimelineTrack&) = delete;

    PK_DEVICE Time now() const { return {}; }
    PK_DEVICE void record(Activity, Time, std::uint32_t, std::uint32_t, std::uint32_t = 0) {}
};

#endif

}  // namespace mpk
