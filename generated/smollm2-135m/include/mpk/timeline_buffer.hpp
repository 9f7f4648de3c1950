// Where the workers of a library built with PK_TIMELINE put what they record.
#pragma once

#include <cstdint>

namespace mpk {

// What a span of time was spent on. The values are those of the C interface.
enum class Activity : std::uint32_t {
    task,        // all of a task, for workers that do not tell its parts apart
    wait_event,  // until an event is open
    wait_page,   // until a page of shared memory is filled, or free again
    stream,      // bringing bytes from memory
    compute,
    store,    // writing results
    trigger,  // making results seen and adding to the event counter
};

// A worker has several tracks: each belongs to one warp, which records without asking the others.
inline constexpr std::uint32_t timeline_tracks = 12;
inline constexpr std::uint32_t worker_track = 0;  // of the warp that runs the task list
inline constexpr std::uint32_t loader_track = 1;
inline constexpr std::uint32_t storer_track = 2;
inline constexpr std::uint32_t first_consumer_track = 3;  // and one more for each further consumer warp

// One span of a track. Spans of a track come in the order of their ends and do not overlap, except that one
// may lie inside another.
struct TimelineRecord {
    std::uint64_t begin, end;  // pk::ticks of the worker; nanoseconds once the track is closed
    std::uint32_t task;        // index of the task, 0xffffffff for none
    std::uint32_t step;
    std::uint32_t amount;  // wait_event: the event; else the bytes moved
    Activity activity;
};
static_assert(sizeof(TimelineRecord) == 32);

// The same moment on two clocks: in a closed track both are the one that all workers share.
struct ClockPair {
    std::uint64_t ticks, ns;
};

// State of a track. Zero at the start of a call.
struct TimelineCursor {
    std::uint32_t kept;          // records in the buffer
    std::uint32_t dropped;       // records that found it full
    std::uint32_t dropped_step;  // of the first of those
    std::uint32_t opened;        // 1 once `first` is set
    ClockPair first, last;
};

// Buffers of all tracks: track t of worker w is number w * timeline_tracks + t.
struct Timeline {
    TimelineCursor* cursors;  // [workers * timeline_tracks]
    TimelineRecord* records;  // [workers * timeline_tracks][capacity]
    std::uint32_t capacity;   // records of one track; 0: nothing is recorded
};

}  // namespace mpk
