// A consumer thread's view of its block: shared memory, its place in the ring, and the barrier of all blocks.
#pragma once

#include "mpk/cluster/attention.hpp"
#include "mpk/cluster/prefill/buffers.hpp"
#include "mpk/cluster/prefill/memory.hpp"
#include "mpk/timeline.hpp"
#include "pk/ptx/named_barrier.hpp"
#include "pk/ptx/thread_number.hpp"

namespace mpk::cluster::prefill {

#if PK_SM90

template <class Decoder>
class Crew {
public:
    using D = Decoder;
    using S = Shares<D>;

    const Machine& m;
    const Setup& setup;
    const Buffers& buffers;
    Patience patience;
    TimelineTrack track;
    std::uint32_t op = 0;  // what a wait that runs out is for

    PK_DEVICE Crew(const Machine& machine, const Setup& s, const Buffers& b, unsigned char* memory)
        : m(machine),
          setup(s),
          buffers(b),
          patience(machine, s, patience_state_),
          // Blocks that the decode kernels do not have leave no records.
          track(machine, blockIdx.x, worker_track, threadIdx.x == 0 && blockIdx.x < machine.workers),
          memory_(memory) {
        refresh();
        entered_ = track.now();
    }

    // Forgets what the compiler derived from the thread's number: it would keep that of all phases at the
    // same time, and run out of registers.
    PK_DEVICE void refresh() { thread_ = pk::ptx::thread_number(); }

    PK_DEVICE std::uint32_t thread() const { return thread_; }
    PK_DEVICE std::uint32_t warp() const { return thread_ / 32; }
    PK_DEVICE std::uint32_t lane() const { return thread_ % 32; }
    template <class T>
    PK_DEVICE T* at(std::uint32_t offset) const {
        return reinterpret_cast<T*>(memory_ + offset);
    }
    PK_DEVICE std::uint32_t address(std::uint32_t offset) const {
        return pk::ptx::shared_address(memory_) + offset;
    }
    PK_DEVICE Control& control() const { return *at<Control>(Memory::control); }
    PK_DEVICE const Pass& pass() const { return control().pass; }
    PK_DEVICE const LayerWeights& weights(std::uint32_t layer) const { return setup.layers[layer]; }

    // Units of work that a warp each does: each(unit) for those of this warp, of `count`. Neighbours go to
    // different blocks.
    template <class Each>
    PK_DEVICE void share(std::uint32_t count, Each each) const {
        _Pragma("unroll 1") for (std::uint32_t u = warp() * gridDim.x + blockIdx.x; u < count;
                                 u += gridDim.x * consumer_warps) {
            each(u);
        }
    }

    // --- the ring

    // Address of the next stage, when it has come.
    PK_DEVICE std::uint32_t wait_stage() {
        std::uint64_t* full = &control().full[stage_];
        if (!pk::ptx::mbarrier_try_wait(full, parity_)) {
            patience.until([&] { return pk::ptx::mbarrier_try_wait(full, parity_); }, op, 0);
        }
        const std::uint32_t at = address(Memory::ring + stage_ * stage_bytes);
        if (++stage_ == stages) {
            stage_ = 0;
            parity_ ^= 1;
        }
        return at;
    }
    // The warp has read the stage that came `back` stages before the next one.
    PK_DEVICE void release_stage(std::uint32_t back) {
        __syncwarp();
        if (lane() == 0) pk::ptx::mbarrier_arrive(&control().empty[(stage_ + stages - back) % stages]);
    }

    // --- all blocks

    // All consumers of all blocks: what they wrote before is seen after. False: leave.
    PK_DEVICE bool meet() {
        // Threads give up one by one, but leave together.
        if (any(patience.gone())) return false;
        ++meetings_;
        // In the timeline prompts belong to the call's first step.
        const std::uint32_t task = PK_TIMELINE != 0 ? setup.op_tasks[op] : 0;
        track.record(Activity::task, entered_, task, 0);
        const TimelineTrack::Time begin = track.now();
        if (thread() == 0) {
            pk::add_acq_rel(buffers.arrived, 1u);
            const std::uint32_t all = meetings_ * gridDim.x;
            patience.until([&] { return pk::load_acquire(buffers.arrived) >= all; }, op, 0);
        }
        if constexpr (PK_TIMELINE != 0)
            track.record(Activity::wait_event, begin, task, 0, m.tasks[task].wait);
        entered_ = track.now();
        refresh();
        return !any(patience.gone());
    }

    // The factors 1 / rms of the residual stream's rows to shared memory.
    PK_DEVICE void load_scales() const {
        constexpr std::uint32_t sums = D::hidden / fold_columns;
        for (std::uint32_t row = thread(); row < pass().octets() * octet; row += consumers) {
            float total = 0;
            PK_UNROLL
            for (std::uint32_t i = 0; i < sums; ++i) total += buffers.squares[i * pass_rows + row];
            at<float>(Memory::scales)[row] = 1.0f / sqrtf(total / D::hidden + static_cast<float>(D::eps));
        }
        pk::sync_block();
    }

private:
    // Whether a consumer of the block says so; a barrier of them too.
    PK_DEVICE static bool any(bool vote) { return pk::ptx::named_barrier_any<1, consumers>(vote); }

    Patience::State patience_state_ = Patience::State::waits;
    unsigned char* memory_;
    std::uint32_t thread_;
    std::uint32_t stage_ = 0, parity_ = 0;
    std::uint32_t meetings_ = 0;
    TimelineTrack::Time entered_ = {};  // since the last meeting
};

#endif

}  // namespace mpk::cluster::prefill
