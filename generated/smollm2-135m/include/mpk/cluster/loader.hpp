// The warp that fills the ring: a block's tape, and the keys and values of its spans where attention comes.
// It runs ahead of the consumers as far as there are free pages, across tasks, layers and steps, and waits
// for a dependency only once a step: which rows it has, before the first keys.
//
// No more than `window` pages are under way at a time: memory delivers no faster with more, and all other
// traffic of the SM (partial sums, flags) would queue behind them.
//
// One lane asks for a page of weights. Keys and values come in many small copies, so there each lane has one:
// a thread takes more than a hundred cycles for one, most of them to find out where it is.
#pragma once

#include "mpk/cluster/attention.hpp"
#include "mpk/cluster/finish.hpp"
#include "pk/ptx/block_number.hpp"
#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/fence.hpp"
#include "pk/ptx/shared_flag.hpp"
#include "pk/ptx/thread_number.hpp"

namespace mpk::cluster {

#if PK_SM90

template <class D, std::uint32_t R>
class Loader {
    using L = Layout<D, R>;
    using S = Shares<D>;
    static constexpr std::uint32_t window = 2;

public:
    PK_DEVICE Loader(const Machine& m, const Setup& setup, unsigned char* memory)
        : m_(m),
          setup_(setup),
          memory_(memory),
          control_(*reinterpret_cast<Control*>(memory + L::control)),
          lane_(pk::ptx::thread_number() % 32),
          track_(m, pk::ptx::block_number(), loader_track, lane_ == 0),
          policy_(pk::ptx::policy_evict_first()) {}

    // One warp calls. `first` is the first step of this kernel. Returns when the call is over.
    PK_DEVICE void run(std::uint32_t first) {
        const std::uint8_t* tape = setup_.tape + setup_.tape_begin[pk::ptx::block_number()];
        for (step_ = first;; ++step_) {
            at_ = tape;
            // The streams of all layers in their order, and the logits.
            constexpr std::uint32_t streams = D::layers * layer_streams;
            _Pragma("unroll 1") for (std::uint32_t i = 0; i <= streams; ++i) {
                const std::uint32_t layer = i / layer_streams;
                const Stream which = i == streams ? Stream::logits : static_cast<Stream>(i % layer_streams);
                if (which == Stream::output) {
                    if (layer == 0 && !read_step()) return drain();
                    if (pk::ptx::block_number() / members < S::groups) load_keys(layer);
                }
                if (which == Stream::logits && samplers_ == 0) break;
                if (lane_ == 0) {
                    if (which == Stream::gate_up) let_sums_pass();
                    stream(which, layer);
                }
                if (has_left()) return drain();
            }
        }
    }

private:
    // Whether the consumers have left.
    PK_DEVICE bool leaving() const { return pk::ptx::load_volatile(&control_.leaving) != 0; }

    // All lanes go by what the first knows, and see what it has seen.
    PK_DEVICE bool has_left() {
        left_ = __shfl_sync(~0u, left_, 0);
        __syncwarp();
        return left_;
    }

    // Waits for a free page and for one of those under way; then `bytes` are expected in it.
    PK_DEVICE std::uint64_t* next_page(std::uint32_t bytes) {
        if (issued_ - arrived_ == window) {
            wait(&control_.full[oldest_], oldest_parity_);
            if (left_) return nullptr;  // it may still be under way
            ++arrived_;
            if (++oldest_ == L::pages) {
                oldest_ = 0;
                oldest_parity_ ^= 1;
            }
        }
        wait(&control_.empty[page_], parity_ ^ 1);
        if (left_) return nullptr;
        ++issued_;
        pk::ptx::mbarrier_arrive_expect_tx(&control_.full[page_], bytes);
        return &control_.full[page_];
    }
    PK_DEVICE unsigned char* page() const { return memory_ + L::ring + page_ * L::page_bytes; }
    PK_DEVICE void advance() {
        if (++page_ == L::pages) {
            page_ = 0;
            parity_ ^= 1;
        }
    }

    // The consumers may leave while it waits: they never take what it loaded for a step that does not come.
    PK_DEVICE void wait(std::uint64_t* barrier, std::uint32_t parity) {
        while (!left_ && !pk::ptx::mbarrier_try_wait(barrier, parity)) left_ = leaving();
    }

    PK_DEVICE void stream(Stream which, std::uint32_t layer) {
        const Tiles tiles =
            reinterpret_cast<const StoredTiles*>(memory_ + L::tiles)[S::stream_index(which, layer)];
        const bool of_group = which == Stream::qkv || which == Stream::output;
        if (of_group && pk::ptx::block_number() / members >= S::groups) return;
        follow();
        _Pragma("unroll 1") for (std::uint32_t t = tiles.tiles.begin; t < tiles.tiles.end && !left_;
                                 t += band) {
            const std::uint32_t count = tiles.tiles.end - t < band ? tiles.tiles.end - t : band;
            const std::uint32_t most = L::page_chunks(count) * count * tile_bytes;
            _Pragma("unroll 1") for (std::uint32_t left = tiles.chunks * count * tile_bytes; left > 0;) {
                const std::uint32_t bytes = left < most ? left : most;
                const TimelineTrack::Time begin = track_.now();
                std::uint64_t* barrier = next_page(bytes);
                if (barrier == nullptr) return;
                pk::ptx::bulk_load(page(), at_, bytes, barrier, policy_);
                if constexpr (PK_TIMELINE != 0) {
                    track_.record(Activity::stream, begin, setup_.op_tasks[op_of_stream(which, layer)], step_,
                                  bytes);
                }
                at_ += bytes;
                left -= bytes;
                advance();
            }
        }
    }

    PK_DEVICE static std::uint32_t op_of_stream(Stream which, std::uint32_t layer) {
        switch (which) {
            case Stream::output:
                return op_of<D>(layer, LayerOp::output);
            case Stream::gate_up:
                return op_of<D>(layer, LayerOp::gate_up);
            case Stream::down:
                return op_of<D>(layer, LayerOp::down);
            default:
                return op_of<D>(layer, LayerOp::qkv);  // after the last layer the logits
        }
    }

    // A block without a group has time until the others are through with attention. It asks for nothing while
    // the sums that begin a layer are on their way, which would queue behind its weights.
    PK_DEVICE void let_sums_pass() {
        ++layers_;
        if (pk::ptx::block_number() / members < S::groups) return;
        while (!left_ && pk::ptx::load_volatile(&control_.summed) < layers_) left_ = leaving();
    }

    // Without pipelining: not before the consumers have begun the stream.
    PK_DEVICE void follow() {
        if constexpr (!D::pipelining) {
            ++begun_;
            while (pk::ptx::load_volatile(&control_.started) < begun_ && !left_) left_ = leaving();
        }
    }

    // The step's rows, once the consumers have them. False if there is no such step in this kernel.
    PK_DEVICE bool read_step() {
        if (lane_ == 0) {
            while (!left_ && pk::ptx::load_acquire_shared(&control_.ready) != step_ + 1) left_ = leaving();
        }
        if (has_left()) return false;
        // What this step reads from the cache was written in the generic proxy before the epoch was released.
        pk::ptx::fence_proxy_async();
        samplers_ = control_.step.samplers;  // read again when the consumers may be a step further
        return true;
    }

    PK_DEVICE void load_keys(std::uint32_t layer) {
        constexpr std::uint32_t units = L::page_tokens / unit, unit_bytes = unit * D::head * 2;
        const auto* cache = static_cast<const unsigned char*>(m_.kv.data);
        if (lane_ == 0) follow();
        const auto* stretches = reinterpret_cast<const Stretch*>(memory_ + L::stretches);
        const std::uint32_t all = control_.step.stretches, head = pk::ptx::block_number() / members;
        // A page has a unit of each stretch of a round, or of part of them. A lane has the keys or the values
        // of one of those.
        const std::uint32_t place = lane_ % units, value = lane_ < units ? 0 : 1;
        std::uint32_t first = 0, step = 0, from = 0;  // the page's round; in units; its first stretch
        struct Copy {
            std::uint32_t page, token;  // of the cache; in that page
            bool there;
        };
        const auto look_up = [&] {
            const Stretch one =
                stretches[from + place < first + stretches[first].together ? from + place : from];
            Copy copy;
            copy.there =
                lane_ < 2 * units && from + place < first + stretches[first].together && step < one.count;
            const std::uint32_t token = (one.begin + (copy.there ? step : 0)) * unit;
            const std::uint64_t pages = control_.step.sequence[one.row] * m_.kv.pages_per_sequence;
            copy.page = m_.kv.page_table[pages + token / D::kv_page];
            copy.token = token % D::kv_page;
            return copy;
        };
        const auto go_on = [&] {
            from += units;
            if (from < first + stretches[first].together) return;
            from = first;
            if (++step < stretches[first].steps) return;
            step = 0;
            first += stretches[first].together;
            from = first;
        };
        if (all == 0) return;
        Copy copy = look_up();
        _Pragma("unroll 1") for (;;) {
            go_on();
            const bool last = first >= all;
            // The next page's numbers are on their way while this one is waited for.
            Copy next = copy;
            if (!last) next = look_up();
            const std::uint32_t copies = __popc(__ballot_sync(~0u, copy.there));
            if (lane_ == 0) next_page(copies * unit_bytes);
            if (has_left()) return;
            page_ = __shfl_sync(~0u, page_, 0);
            unsigned char* to = page() + value * (L::page_tokens * D::head * 2) + place * unit_bytes;
            if (copy.there) {
                const unsigned char* source = cache + cache_offset<D>(m_, layer, copy.page, head) +
                                              value * values_offset<D> + copy.token * D::head * 2;
                pk::ptx::bulk_load(to, source, unit_bytes, &control_.full[page_], policy_);
            }
            __syncwarp();
            advance();
            if (last) return;
            copy = next;
        }
    }

    // Shared memory must outlive the copies under way. No bound: each has been asked for, and ends by itself.
    PK_DEVICE void drain() {
        if (lane_ != 0) return;
        for (; arrived_ != issued_; ++arrived_) {
            while (!pk::ptx::mbarrier_try_wait(&control_.full[oldest_], oldest_parity_)) {
            }
            if (++oldest_ == L::pages) {
                oldest_ = 0;
                oldest_parity_ ^= 1;
            }
        }
    }

    const Machine& m_;
    const Setup& setup_;
    unsigned char* memory_;
    Control& control_;
    std::uint32_t lane_;
    TimelineTrack track_;
    std::uint64_t policy_;
    const std::uint8_t* at_ = nullptr;
    std::uint32_t step_ = 0, begun_ = 0, samplers_ = 0;
    std::uint32_t layers_ = 0;  // begun in this kernel
    std::uint32_t page_ = 0, parity_ = 0;
    std::uint32_t oldest_ = 0, oldest_parity_ = 0;  // of the pages under way
    std::uint32_t issued_ = 0, arrived_ = 0;
    bool left_ = false;
};

#endif

}  // namespace mpk::cluster
