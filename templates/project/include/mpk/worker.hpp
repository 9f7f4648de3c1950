// The life of a worker: its own tasks in their order, and whatever is in the queue while it has to wait.
#pragma once

#include "mpk/context.hpp"
#include "mpk/event.hpp"
#include "mpk/queue.hpp"
#include "mpk/scheduler.hpp"
#include "mpk/timeline.hpp"
#include "mpk/watchdog.hpp"
#include "pk/platform/clock.hpp"
#if PK_CUDA
#include "pk/ptx/block_memory.hpp"
#endif

namespace mpk {

// What the leading warp tells the others of its block.
struct WorkerBoard {
    TaskSlot own;          // the next task of the worker's list
    TaskSlot queued;       // a task from the queue
    const TaskSlot* next;  // null: leave
};

namespace detail {

// Copies a task and what it names. One thread calls: on a GPU the board lies in shared memory, and what a
// thread writes there is read by others only after a barrier of the block.
PK_DEVICE void fetch(const Machine& m, std::uint32_t task, TaskSlot& slot) {
    const Task fetched = m.tasks[task];
    const OpDesc op = m.ops[fetched.op];
    slot.task = fetched;
    slot.op = op;
    PK_UNROLL
    for (std::uint32_t i = 0; i < max_operands; ++i) slot.operands[i] = m.tensors[op.operand[i]];
}

// One look at everything a waiting worker cares about.
struct Poll {
    std::uint32_t counter;
    bool queued;
    bool failed;
};

PK_DEVICE Poll poll(const Machine& m, std::uint32_t event) {
#if PK_CUDA
    // One load of three lanes costs one trip to L2. It acquires for the lane that reads the counter; a warp
    // barrier and a block barrier hand that on.
    const std::uint32_t* word = &m.counters[event];
    if (pk::lane() == 1) word = reinterpret_cast<const std::uint32_t*>(m.queue.ready);
    if (pk::lane() == 2) word = &m.report->state;
    const std::uint32_t value = pk::load_acquire(word);
    return {pk::broadcast(value, 0), static_cast<std::int32_t>(pk::broadcast(value, 1)) > 0,
            pk::broadcast(value, 2) != 0};
#else
    return {pk::load_acquire(&m.counters[event]), may_take(m.queue), failed(m)};
#endif
}

enum class Outcome : std::uint8_t { open, queued, leave };

// Waits until the event is open or there is a task in the queue, which it takes. All lanes of one warp call.
PK_DEVICE Outcome wait_for(const Machine& m, std::uint32_t worker, const Wait& wait, std::uint32_t& task) {
    for (Watchdog watchdog(m.timeout_ns);;) {
        const Poll seen = poll(m, wait.event);
        if (seen.failed) return Outcome::leave;
        if (reached(seen.counter, wait.target)) {
            pk::sync_warp();  // all lanes see what the counter's lane acquired
            return Outcome::open;
        }
        if (seen.queued) {
            std::uint32_t taken = no_task;
            if (pk::lane() == 0 && !take(m, worker, wait, taken)) taken = no_task;
            task = pk::broadcast(taken, 0);
            if (task != no_task) return Outcome::queued;
        }
        // Lanes may read different times: one decides.
        bool late = false;
        if (pk::lane() == 0) {
            late = watchdog.expired(seen.counter);
            if (late) report_timeout(m, worker, wait, seen.counter);
        }
        if (pk::ballot(late) != 0) return Outcome::leave;
        pk::pause(watchdog.polls());
    }
}

// Where a worker stands in its list.
class Course {
public:
    PK_DEVICE Course(const Machine& m, std::uint32_t worker)
        : worker_(worker), begin_(m.list_begin[worker]), end_(m.list_begin[worker + 1]), at_(end_) {}

    // The next task to run, or null to leave. All lanes of the leading warp call.
    PK_DEVICE const TaskSlot* next(const Machine& m, WorkerBoard& board, TimelineTrack& track) {
        for (;;) {
            const bool between_steps = at_ == end_;
            // Only the first lane looks at the board: the others may still be reading what it says next.
            Wait wait{start_event, 0, step_, no_task, no_task};
            if (!between_steps) {
                wait.task = m.list[at_];
                if (pk::lane() == 0) {
                    if (!fetched_) fetch(m, wait.task, board.own);
                    wait.event = board.own.task.wait;
                    wait.op = board.own.task.op;
                }
                fetched_ = true;
                wait.event = pk::broadcast(wait.event, 0);
            }
            wait.target = target_of(m, wait.event, step_);
            std::uint32_t task = no_task;
            const TimelineTrack::Time begin = track.now();
            const Outcome outcome = wait_for(m, worker_, wait, task);
            track.record(Activity::wait_event, begin, wait.task, step_, wait.event);
            if (outcome == Outcome::leave) return nullptr;
            if (outcome == Outcome::queued) {
                if (pk::lane() == 0) fetch(m, task, board.queued);
                task_ = task;
                task_step_ = between_steps ? step_ - 1 : step_;  // the step that begins next has no tasks yet
                return &board.queued;
            }
            if (!between_steps) {
                fetched_ = false;
                task_ = wait.task;
                task_step_ = step_;
                if (++at_ == end_) ++step_;
                return &board.own;
            }
            // Relaxed: a worker without tasks may come so late that the step after is being prepared.
            if (pk::load_relaxed(m.step.live) == 0) return nullptr;
            at_ = begin_;
            if (begin_ == end_) ++step_;
        }
    }

    // What next() returned: the index of the task, and its step.
    PK_DEVICE std::uint32_t task() const { return task_; }
    PK_DEVICE std::uint32_t step() const { return task_step_; }

private:
    std::uint32_t worker_, begin_, end_;
    std::uint32_t at_;        // the end between two steps
    std::uint32_t step_ = 0;  // of the task at `at_`, or the one that is to begin
    bool fetched_ = false;
    std::uint32_t task_ = no_task, task_step_ = 0;
};

}  // namespace detail

// Runs until no sequence is live or a wait has failed. All threads of a block call (GPU: worker_threads of
// them, every block co-resident, `m` a __grid_constant__ parameter); on the host one thread does.
// scratch: Program::scratch_bytes, 64-byte aligned; shared memory on a GPU.
template <class Program>
PK_DEVICE void worker_main(const Machine& m, std::uint32_t worker, void* scratch) {
#if PK_CUDA
    auto& board = pk::ptx::block_variable<WorkerBoard>();
#else
    WorkerBoard board;
#endif
    detail::Course course(m, worker);
    TimelineTrack track(m, worker, worker_track, pk::thread_rank() == 0);
    for (;;) {
        if (pk::warp() == 0) {
            const TaskSlot* next = course.next(m, board, track);
            if (pk::lane() == 0) board.next = next;
        }
        pk::sync_block();  // hands on what the leading warp acquired
        const TaskSlot* slot = board.next;
        if (slot == nullptr) return;
        Context context{m, slot->task, slot->op, slot->operands, scratch};
        const TimelineTrack::Time begin = track.now();
        Program::run(context);
        pk::sync_block();  // the task's writes come before the trigger, and the board is free again
        track.record(Activity::task, begin, course.task(), course.step());
        const TimelineTrack::Time done = track.now();
        if (pk::warp() == 0) complete<Program>(m, slot->task);
        track.record(Activity::trigger, done, course.task(), course.step());
    }
}

}  // namespace mpk
