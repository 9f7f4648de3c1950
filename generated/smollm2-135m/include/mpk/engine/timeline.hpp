// The buffers that workers record their timeline in, and reading them after a call. A library built without
// PK_TIMELINE has none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "mpk/engine/error.hpp"
#include "mpk/machine.hpp"
#include "mpk/timeline_buffer.hpp"
#include "pk/platform/platform.hpp"

namespace mpk::engine {

// What all tracks of a call hold together.
struct TimelineTotals {
    std::uint64_t records, dropped;
    std::uint32_t first_cut_step;  // from which on records may be missing; the largest number: from none
};

#if PK_TIMELINE

inline constexpr std::uint64_t default_timeline_bytes = std::uint64_t{2} << 30;

// From a worker's clock to nanoseconds, by the line through the first and the last pair of its tracks.
class WorkerClock {
public:
    explicit WorkerClock(const TimelineCursor* tracks) {
        for (std::uint32_t t = 0; t < timeline_tracks; ++t) {
            if (tracks[t].opened == 0) continue;
            if (!used_ || tracks[t].first.ns < first_.ns) first_ = tracks[t].first;
            if (!used_ || tracks[t].last.ns > last_.ns) last_ = tracks[t].last;
            used_ = true;
        }
    }

    bool used() const { return used_; }
    std::uint64_t start_ns() const { return first_.ns; }

    // Nanoseconds after `origin_ns`, 0 for what came before.
    std::uint64_t ns_after(std::uint64_t origin_ns, std::uint64_t ticks) const {
        const auto passed = static_cast<double>(static_cast<std::int64_t>(ticks - first_.ticks));
        const double all = static_cast<double>(last_.ticks - first_.ticks);
        const double rate = all > 0 ? static_cast<double>(last_.ns - first_.ns) / all : 1;
        const double ns = static_cast<double>(first_.ns - origin_ns) + passed * rate;
        return ns > 0 ? static_cast<std::uint64_t>(ns + 0.5) : 0;
    }

private:
    bool used_ = false;
    ClockPair first_ = {}, last_ = {};
};

template <class Backend>
class TimelineBuffers {
public:
    TimelineBuffers() = default;
    // `capacity` records for each track of each worker; 0: the default.
    TimelineBuffers(const Backend& backend, std::uint32_t capacity)
        : tracks_(std::size_t{backend.workers()} * timeline_tracks),
          capacity_(capacity == 0 ? default_capacity() : capacity),
          cursors_(backend.allocate(tracks_ * sizeof(TimelineCursor), "the timeline")),
          records_(backend.allocate(tracks_ * capacity_ * sizeof(TimelineRecord),
                                    "the timeline (options.timeline_records)")) {}

    void attach(Machine& machine) const {
        machine.timeline.cursors = static_cast<TimelineCursor*>(cursors_.data());
        machine.timeline.records = static_cast<TimelineRecord*>(records_.data());
        machine.timeline.capacity = capacity_;
    }

    // Forget the records of the call before: enqueued before the call on its stream.
    void clear(const Backend& backend, void* stream) const {
        backend.clear(cursors_.data(), tracks_ * sizeof(TimelineCursor), stream);
    }

    // Copy at most `room` records of the last call, those of a track one after the other.
    template <class CRecord>
    TimelineTotals read(const Backend& backend, CRecord* out, std::uint64_t room) const {
        std::vector<TimelineCursor> cursors(tracks_);
        backend.download(cursors.data(), cursors_.data(), tracks_ * sizeof(TimelineCursor));
        std::vector<WorkerClock> clocks;
        std::uint64_t origin = std::numeric_limits<std::uint64_t>::max();
        for (std::size_t first = 0; first < tracks_; first += timeline_tracks) {
            clocks.emplace_back(&cursors[first]);
            if (clocks.back().used()) origin = std::min(origin, clocks.back().start_ns());
        }

        TimelineTotals totals = {0, 0, std::numeric_limits<std::uint32_t>::max()};
        std::vector<TimelineRecord> track;
        for (std::size_t number = 0; number < tracks_; ++number) {
            const TimelineCursor& cursor = cursors[number];
            totals.dropped += cursor.dropped;
            if (cursor.dropped != 0) {
                totals.first_cut_step = std::min(totals.first_cut_step, cursor.dropped_step);
            }
            const std::uint64_t left = room - std::min<std::uint64_t>(room, totals.records);
            track.resize(std::min<std::uint64_t>(cursor.kept, left));
            if (!track.empty()) {
                const auto* records = static_cast<const TimelineRecord*>(records_.data());
                backend.download(track.data(), records + number * capacity_,
                                 track.size() * sizeof(TimelineRecord));
            }
            const auto worker = static_cast<std::uint32_t>(number / timeline_tracks);
            for (std::size_t i = 0; i < track.size(); ++i) {
                CRecord& record = out[totals.records + i];
                copy_record(track[i], record);
                record.begin_ns = clocks[worker].ns_after(origin, track[i].begin);
                record.end_ns = clocks[worker].ns_after(origin, track[i].end);
                record.worker = worker;
                record.track = static_cast<std::uint32_t>(number % timeline_tracks);
            }
            totals.records += cursor.kept;
        }
        return totals;
    }

private:
    std::uint32_t default_capacity() const {
        return static_cast<std::uint32_t>(default_timeline_bytes / (tracks_ * sizeof(TimelineRecord)));
    }

    template <class CRecord>
    static void copy_record(const TimelineRecord& from, CRecord& to) {
        static constexpr std::uint32_t no_event = 0xffffffff;
        const bool waited = from.activity == Activity::wait_event;
        to.activity = static_cast<std::uint32_t>(from.activity);
        to.step = from.step;
        to.task = from.task;
        to.event = waited ? from.amount : no_event;
        to.bytes = waited ? 0 : from.amount;
    }

    std::size_t tracks_ = 0;
    std::uint32_t capacity_ = 0;
    typename Backend::Buffer cursors_, records_;
};

#else

template <class Backend>
class TimelineBuffers {
public:
    TimelineBuffers() = default;
    TimelineBuffers(const Backend&, std::uint32_t capacity) {
        if (capacity != 0) {
            fail(Status::unsupported, "options.timeline_records is ", capacity, ", but ", reason);
        }
    }

    void attach(Machine&) const {}
    void clear(const Backend&, void*) const {}

    template <class CRecord>
    TimelineTotals read(const Backend&, CRecord*, std::uint64_t) const {
        fail(Status::unsupported, reason);
    }

private:
    static constexpr const char* reason = "this library was built without the CMake option for a timeline";
};

#endif

}  // namespace mpk::engine
