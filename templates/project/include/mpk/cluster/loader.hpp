// The warp that fills the ring: a block's tape, and the keys and values of its spans where attention comes,
// for which it has the help of another. It runs ahead of the consumers as far as there are free pages, across
// tasks, layers and steps, and waits for a dependency only once a step: which rows it has, before the first
// keys.
//
// No more than `window` pages of weights are under way at a time: memory delivers no faster with more, and
// all other traffic of the SM (partial sums, flags) would queue behind them.
#pragma once

#include "mpk/cluster/finish.hpp"
#include "mpk/cluster/key_loader.hpp"
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
          track_(m, pk::ptx::block_number(), loader_track, pk::ptx::thread_number() == consumers),
          policy_(pk::ptx::policy_evict_first()),
          filler_(memory),
          keys_(m, memory, policy_) {}

    // The second warp calls.
    PK_DEVICE void help() { keys_.help(); }

    // The first warp calls. `first` is the first step of this kernel. Returns when the call is over.
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
                    if (layer == 0 && !read_step()) return leave();
                    if (pk::ptx::block_number() / members < S::groups) load_keys(layer);
                }
                if (which == Stream::logits && samplers_ == 0) break;
                if (lane_ == 0) {
                    if (which == Stream::gate_up) let_sums_pass();
                    stream(which, layer);
                }
                if (filler_.has_left()) return leave();
            }
        }
    }

private:
    // Waits for one of the pages under way, and for a free one, in which `bytes` are then expected.
    PK_DEVICE bool next_page(std::uint32_t bytes) {
        if (under_way_ == window) {
            filler_.wait_full(oldest_);
            oldest_.advance();
            --under_way_;
        }
        if (!filler_.expect(bytes)) return false;
        ++under_way_;
        return true;
    }

    PK_DEVICE void stream(Stream which, std::uint32_t layer) {
        const Tiles tiles =
            reinterpret_cast<const StoredTiles*>(memory_ + L::tiles)[S::stream_index(which, layer)];
        const bool of_group = which == Stream::qkv || which == Stream::output;
        if (of_group && pk::ptx::block_number() / members >= S::groups) return;
        follow();
        _Pragma("unroll 1") for (std::uint32_t t = tiles.tiles.begin; t < tiles.tiles.end && !filler_.left();
                                 t += band) {
            const std::uint32_t count = tiles.tiles.end - t < band ? tiles.tiles.end - t : band;
            const std::uint32_t most = L::page_chunks(count) * count * tile_bytes;
            _Pragma("unroll 1") for (std::uint32_t left = tiles.chunks * count * tile_bytes; left > 0;) {
                const std::uint32_t bytes = left < most ? left : most;
                const TimelineTrack::Time begin = track_.now();
                if (!next_page(bytes)) return;
                pk::ptx::bulk_load(filler_.page(), at_, bytes, filler_.full(), policy_);
                if constexpr (PK_TIMELINE != 0) {
                    track_.record(Activity::stream, begin, setup_.op_tasks[op_of_stream(which, layer)], step_,
                                  bytes);
                }
                at_ += bytes;
                left -= bytes;
                filler_.next.advance();
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
        filler_.wait_until([&] { return pk::ptx::load_volatile(&control_.summed) >= layers_; });
    }

    // Without pipelining: not before the consumers have begun the stream.
    PK_DEVICE void follow() {
        if constexpr (!D::pipelining) {
            ++begun_;
            filler_.wait_until([&] { return pk::ptx::load_volatile(&control_.started) >= begun_; });
        }
    }

    // The step's rows, once the consumers have them. False if there is no such step in this kernel.
    PK_DEVICE bool read_step() {
        if (lane_ == 0) {
            filler_.wait_until([&] { return pk::ptx::load_acquire_shared(&control_.ready) == step_ + 1; });
        }
        if (filler_.has_left()) return false;
        // What this step reads from the cache was written in the generic proxy before the epoch was released.
        pk::ptx::fence_proxy_async();
        samplers_ = control_.step.samplers;  // read again when the consumers may be a step further
        return true;
    }

    PK_DEVICE void load_keys(std::uint32_t layer) {
        if (lane_ == 0) follow();
        if (filler_.has_left()) return;
        // As many of them as fit are under way at a time: nothing else is while attention lasts.
        under_way_ += keys_.lead(filler_, layer);
        if (under_way_ <= window) return;
        under_way_ = window;
        oldest_ = filler_.next.back(window);
    }

    PK_DEVICE void leave() {
        if (lane_ == 0) filler_.drain();
        __syncwarp();
        keys_.dismiss();
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
    RingFiller<D, R> filler_;
    KeyLoader<D, R> keys_;
    typename RingFiller<D, R>::Place oldest_;  // of the pages under way
    std::uint32_t under_way_ = 0;
};

#endif

}  // namespace mpk::cluster
