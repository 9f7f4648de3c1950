// A consumer thread's view of its block: shared memory, its place in the ring, the barriers that peers
// complete, and the step.
#pragma once

#include "mpk/cluster/layout.hpp"
#include "mpk/cluster/patience.hpp"
#include "mpk/cluster/setup.hpp"
#include "mpk/timeline.hpp"
#include "pk/platform/atomic.hpp"
#include "pk/ptx/block_number.hpp"
#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/cluster.hpp"
#include "pk/ptx/mbarrier.hpp"
#include "pk/ptx/named_barrier.hpp"
#include "pk/ptx/shared_flag.hpp"
#include "pk/ptx/thread_number.hpp"
#include "pk/ptx/uniform.hpp"

namespace mpk::cluster {

#if PK_SM90

// The operator that a wait or a stretch of work belongs to, as the plan numbers them: the embedding, then
// seven a layer, then the final norm and the logits.
enum class LayerOp : std::uint32_t { norm, qkv, attention, output, ffn_norm, gate_up, down };
template <class D>
PK_DEVICE std::uint32_t op_of(std::uint32_t layer, LayerOp op) {
    return 1 + layer * 7 + static_cast<std::uint32_t>(op);
}

// x, which is equal in the warp, so that the compiler knows it: what depends on it is worked out once for all
// lanes, and branches and loops by it do not part them. All lanes call. If the compiler sees lanes part for
// good anywhere in a layer, by a loop whose bounds it takes for different, it works out nothing for all lanes
// any more; then each tensor core product waits for its descriptors.
PK_DEVICE std::uint32_t uniform(std::uint32_t x) {
    return pk::ptx::equal_in_warp(x);
}

// The named barriers of the two warps of a tile, one for each tile of a band; the consumers' own is 1.
inline constexpr std::uint32_t pair_barrier = 8;

template <class Decoder, std::uint32_t R>
class Block {
public:
    using D = Decoder;
    using L = Layout<D, R>;
    using S = Shares<D>;
    static constexpr std::uint32_t rows_room = R;

    const Machine& m;
    const Setup& setup;
    Patience patience;
    TimelineTrack track;
    std::uint32_t op = 0;  // what a wait that runs out is for

    PK_DEVICE Block(const Machine& machine, const Setup& l, unsigned char* memory)
        : m(machine),
          setup(l),
          patience(machine, l, *reinterpret_cast<Patience::State*>(memory + L::patience + threadIdx.x)),
          track(machine, blockIdx.x, worker_track, threadIdx.x == 0),
          memory_(memory),
          base_(pk::ptx::shared_address(memory)) {
        refresh();
        step_ = control().number;
        *at<Patience::State>(L::patience + thread()) = Patience::State::waits;
        entered_ = track.now();
    }

    // Forgets what the compiler derived from the thread's number: it would keep that of all parts of a layer
    // at the same time, and run out of registers.
    PK_DEVICE void refresh() { thread_ = pk::ptx::thread_number(); }

    PK_DEVICE std::uint32_t thread() const { return thread_; }
    PK_DEVICE std::uint32_t warp() const { return thread_ / 32; }
    PK_DEVICE std::uint32_t uniform_warp() const { return uniform(warp()); }
    PK_DEVICE std::uint32_t lane() const { return thread_ % 32; }
    // Read anew each time, so as not to take a register all along.
    PK_DEVICE std::uint32_t number() const { return pk::ptx::block_number(); }
    PK_DEVICE std::uint32_t member() const { return number() % members; }
    PK_DEVICE std::uint32_t cluster() const { return number() / members; }
    PK_DEVICE bool attends() const { return cluster() < S::groups; }

    // The step, of the call.
    PK_DEVICE std::uint32_t step() const {
        if constexpr (R == 1) return step_;
        return control().number;
    }
    // The layer, counted over all steps of this kernel.
    PK_DEVICE std::uint32_t turn(std::uint32_t layer) const {
        if constexpr (R == 1) return turns_ + layer;
        return control().turns + layer;
    }
    // After a barrier of all consumers. The first warp, who looks for the next step, sees it; all do after
    // the barrier that follows.
    PK_DEVICE void next_step() {
        ++step_;
        turns_ += D::layers;
        if (R == 1 || warp() != 0) return;
        if (lane() == 0) {
            ++control().number;
            control().turns += D::layers;
        }
        __syncwarp();
    }

    template <class T>
    PK_DEVICE T* at(std::uint32_t offset) const {
        return reinterpret_cast<T*>(memory_ + offset);
    }
    PK_DEVICE std::uint32_t address(std::uint32_t offset) const { return base_ + offset; }
    PK_DEVICE Control& control() const { return *at<Control>(L::control); }
    PK_DEVICE const StepBoard& board() const { return control().step; }
    // Of a batch of one, too, it is read: as a constant it makes the compiler see lanes part (uniform).
    PK_DEVICE std::uint32_t rows() const { return control().step.rows; }
    PK_DEVICE const LayerWeights& weights(std::uint32_t layer) const {
        return at<const LayerWeights>(L::weights)[layer];
    }

    PK_DEVICE Tiles tiles(Stream stream, std::uint32_t layer) const {
        return at<const StoredTiles>(L::tiles)[S::stream_index(stream, layer)];
    }

    // All consumers of the block.
    PK_DEVICE void sync() const { pk::sync_block(); }

    // Whether any of them says so; a barrier too.
    PK_DEVICE bool any(bool vote) const { return pk::ptx::named_barrier_any<1, consumers>(vote); }

    // --- the ring

    // Address of the next page, when it has come. All lanes. `there`: is_page_there() before.
    PK_DEVICE std::uint32_t wait_page() { return wait_page(is_page_there()); }
    PK_DEVICE std::uint32_t wait_page(bool there) {
        std::uint64_t* full = &control().full[page_];
        const TimelineTrack::Time begin = track.now();
        if (!there &&
            !patience.until_all([&] { return pk::ptx::mbarrier_try_wait(full, parity_); }, op, step())) {
            exchange_parity_ |= starved;
        }
        if constexpr (PK_TIMELINE != 0) track.record(Activity::wait_page, begin, setup.op_tasks[op], step());
        return base_ + L::ring + page_ * page_bytes;
    }

    // Whether the next page has come. All lanes.
    PK_DEVICE bool is_page_there() const {
        return __all_sync(~0u, pk::ptx::mbarrier_test_wait(&control().full[page_], parity_));
    }

    // The warp has read the page: it arrives for all lanes, whose reads the warp barrier orders before. Not
    // where it has given up a page that had not come, so that nobody asks for the next one to come there.
    PK_DEVICE void release_page() {
        __syncwarp();
        if (lane() == 0 && (exchange_parity_ & starved) == 0)
            pk::ptx::mbarrier_arrive(&control().empty[page_]);
        if (++page_ == L::pages) {
            page_ = 0;
            parity_ ^= 1;
        }
    }

    // The consumers turn to another operator.
    PK_DEVICE void enter(std::uint32_t next) {
        refresh();
        record_task();
        op = next;
    }
    // What was done since `enter`, for the timeline.
    PK_DEVICE void record_task() {
        if constexpr (PK_TIMELINE != 0) {
            track.record(Activity::task, entered_, setup.op_tasks[op], step());
            entered_ = track.now();
        }
    }

    // The consumers turn to a stream of the layer, or to its attention.
    PK_DEVICE void begin(std::uint32_t layer, LayerOp which) {
        enter(op_of<D>(layer, which));
        if constexpr (!D::pipelining) {
            // Only paces the loader: nothing is handed on.
            if (thread_ == 0) pk::ptx::store_volatile(&control().started, ++begun_);
        }
    }

    // --- exchange inside the cluster

    PK_DEVICE static std::uint32_t barrier_offset(Exchange e) {
        return L::control + offsetof(Control, exchange) + static_cast<std::uint32_t>(e) * 8;
    }

    // Stores at `offset` in the memory of member thread() % members; the barrier there counts the bytes.
    template <class T>
    PK_DEVICE void send(Exchange e, std::uint32_t offset, T value) const {
        send_to(thread() % members, e, offset, value);
    }

    // To that member.
    template <class T>
    PK_DEVICE void send_to(std::uint32_t rank, Exchange e, std::uint32_t offset, T value) const {
        const std::uint32_t base = pk::ptx::peer_address(base_, rank);
        pk::ptx::store_peer(base + offset, value, base + barrier_offset(e));
    }

    // `bytes` at `offset` in this block's memory to the same place in that of another member. One thread,
    // after a barrier of those who wrote them, with a fence.proxy.async before it.
    PK_DEVICE void copy_to(std::uint32_t rank, Exchange e, std::uint32_t offset, std::uint32_t bytes) const {
        const std::uint32_t base = pk::ptx::peer_address(base_, rank);
        pk::ptx::bulk_copy_to_peer(base + offset, base_ + offset, bytes, base + barrier_offset(e));
    }

    // To every member.
    template <class T>
    PK_DEVICE void send_all(Exchange e, std::uint32_t offset, T value) const {
        PK_UNROLL
        for (std::uint32_t rank = 0; rank < members; ++rank) send_to(rank, e, offset, value);
    }

    // The peers, this block among them, will send `bytes`. One thread's arrival and the bytes complete a
    // phase.
    PK_DEVICE void expect(Exchange e, std::uint32_t bytes) {
        // Where a phase before is not complete, the barrier takes no second arrival.
        if (thread_ == 0 && (exchange_parity_ & lost) == 0) {
            pk::ptx::mbarrier_arrive_expect_tx(&control().exchange[static_cast<std::uint32_t>(e)], bytes);
        }
    }
    // For `waiting`, the operator that reads what comes.
    PK_DEVICE void wait(Exchange e, std::uint32_t waiting) {
        const std::uint32_t bit = static_cast<std::uint32_t>(e), parity = exchange_parity_ >> bit & 1;
        const std::uint32_t barrier = base_ + barrier_offset(e);
        const TimelineTrack::Time begin = track.now();
        const bool came = patience.until_all(
            [&] { return pk::ptx::mbarrier_try_wait_cluster(barrier, parity); }, waiting, step());
        record_wait(begin, waiting);
        exchange_parity_ ^= 1u << bit;
        if (!came) exchange_parity_ |= lost;
    }

    // In the timeline a wait is for the event that the plan has the operator wait for.
    PK_DEVICE void record_wait(TimelineTrack::Time begin, std::uint32_t waiting) {
        if constexpr (PK_TIMELINE != 0) {
            const std::uint32_t task = setup.op_tasks[waiting];
            track.record(Activity::wait_event, begin, task, step(), m.tasks[task].wait);
        }
    }

private:
    // In exchange_parity_: that a wait for peers has run out, that one for a page has.
    static constexpr std::uint32_t lost = 1u << 31, starved = 1u << 30;

    unsigned char* memory_;
    std::uint32_t base_;
    std::uint32_t thread_;
    std::uint32_t page_ = 0, parity_ = 0, exchange_parity_ = 0;
    std::uint32_t begun_ = 0;  // streams
    // Of a batch of one; with several rows registers are short, and both are in shared memory.
    std::uint32_t step_ = 0, turns_ = 0;
    TimelineTrack::Time entered_ = {};
};

#endif

}  // namespace mpk::cluster
