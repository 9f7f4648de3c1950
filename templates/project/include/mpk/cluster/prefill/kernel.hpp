// The kernel that reads prompts: it fills the KV cache with the tokens that each sequence of the call has
// behind it (Sequence::position) before the decode kernels begin, for many tokens at a time, and computes no
// logits. Phases of all blocks with a barrier between:
//   the embeddings; in every layer QKV, heads, attention, output, residual, gate and up, down, residual.
#pragma once

#include "mpk/cluster/prefill/attend.hpp"
#include "mpk/cluster/prefill/feeder.hpp"
#include "mpk/cluster/prefill/heads.hpp"
#include "mpk/cluster/prefill/products.hpp"
#include "pk/ptx/registers.hpp"

namespace mpk::cluster::prefill {

// How many tokens of a new sequence are read ahead: all but the last one, if they are more than one step of
// the decode kernels reads. Scored prompts need the logits of every row.
template <class D>
std::uint32_t tokens_ahead(const Sequence& sequence) {
    const bool is_long = sequence.prompt_length > D::rows;
    return is_long && sequence.score_prompt == 0 ? sequence.prompt_length - 1 : 0;
}

#if PK_SM90

// visit() for every pass, until it says no. The thread that writes describes the pass.
template <class Visit>
PK_DEVICE void each_pass(const Machine& m, Pass& pass, bool writes, Visit visit) {
    const auto length = [&](std::uint32_t s) { return m.sequences[s].position; };
    std::uint32_t total = 0;
    for (std::uint32_t s = 0; s < m.batch; ++s) total += length(s);
    for (std::uint32_t first = 0; first < total; first += pass_rows) {
        if (writes) fill_pass(pass, m.batch, first, length);
        if (!visit()) return;
    }
}

PK_DEVICE LayerOp op_of_product(Stream which) {
    switch (which) {
        case Stream::qkv:
            return LayerOp::qkv;
        case Stream::output:
            return LayerOp::output;
        case Stream::gate_up:
            return LayerOp::gate_up;
        default:
            return LayerOp::down;
    }
}

template <class D>
PK_DEVICE bool feed_pass(Feeder<D>& feeder, const Buffers& buffers) {
    TileSize size;
    with_tile(feeder.pass().rows, [&]<class T>(T) { size = {T::tiles, T::tokens, T::chunks}; });
    _Pragma("unroll 1") for (std::uint32_t layer = 0; layer < D::layers; ++layer) {
        _Pragma("unroll 1") for (std::uint32_t p = 0; p < layer_streams; ++p) {
            const Stream which = static_cast<Stream>(p);
            const unsigned char* from = which == Stream::output ? buffers.attended
                                        : which == Stream::down ? buffers.ffn
                                                                : buffers.hidden;
            const std::uint32_t op = op_of<D>(layer, op_of_product(which));
            if (!feeder.product(size, which, layer, from, op)) return false;
            if (which != Stream::gate_up) feeder.count_meeting();
            if (which != Stream::qkv) continue;
            if (layer + 1 == D::layers) break;
            if (!feeder.keys(layer, op_of<D>(layer, LayerOp::attention))) return false;
        }
    }
    feeder.count_meeting();
    return true;
}

// The last layer is left once its keys and values are in the cache.
template <class D>
PK_DEVICE bool compute_pass(Crew<D>& crew) {
    using C = Crew<D>;
    crew.op = 0;
    put_angles(crew);
    renew_residual<Embeddings<C>>(crew, crew.weights(0).attention_norm);
    if (!crew.meet()) return false;
    _Pragma("unroll 1") for (std::uint32_t layer = 0; layer < D::layers; ++layer) {
        _Pragma("unroll 1") for (std::uint32_t p = 0; p < layer_streams; ++p) {
            const Stream which = static_cast<Stream>(p);
            crew.op = op_of<D>(layer, op_of_product(which));
            if (which == Stream::gate_up) crew.load_scales();
            with_tile(crew.pass().rows, [&]<class T>(T) { compute_product<T>(crew, which); });
            if (!crew.meet()) return false;
            if (which == Stream::gate_up) continue;
            if (which == Stream::qkv) {
                crew.op = op_of<D>(layer, LayerOp::attention);
                crew.load_scales();
                make_heads(crew, layer);
                if (!crew.meet()) return false;
                if (layer + 1 == D::layers) break;
                attend_prompts(crew);
            } else if (which == Stream::output) {
                crew.op = op_of<D>(layer, LayerOp::ffn_norm);
                renew_residual<Added<C, Stream::output>>(crew, crew.weights(layer).ffn_norm);
            } else {
                crew.op = op_of<D>(layer + 1, LayerOp::norm);
                renew_residual<Added<C, Stream::down>>(crew, crew.weights(layer + 1).attention_norm);
            }
            if (!crew.meet()) return false;
        }
    }
    return true;
}

// All threads of a block of block_size call, in as many blocks as run at the same time.
template <class D>
PK_DEVICE void prefill_main(const Machine& m, const Setup& setup, const Buffers& buffers,
                            unsigned char* memory) {
    auto& control = *reinterpret_cast<Control*>(memory + Memory::control);
    if (threadIdx.x == 0) {
        for (std::uint32_t s = 0; s < stages; ++s) {
            pk::ptx::mbarrier_init(&control.full[s], 1);
            pk::ptx::mbarrier_init(&control.empty[s], consumer_warps);
        }
        pk::ptx::mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < consumers) {
        pk::ptx::take_registers<208>();
        Crew<D> crew(m, setup, buffers, memory);
        each_pass(m, control.pass, threadIdx.x == 0, [&] {
            pk::sync_block();
            return compute_pass(crew);
        });
        crew.patience.report();
    } else {
        pk::ptx::give_back_registers<88>();
        if (threadIdx.x >= consumers + 32) return;
        Feeder<D> feeder(m, setup, buffers, memory);
        each_pass(m, control.loader_pass, threadIdx.x == consumers, [&] {
            __syncwarp();
            const bool going_on = feed_pass(feeder, buffers);
            __syncwarp();  // nobody reads the pass any more
            return going_on;
        });
        feeder.leave();
    }
}

#endif

}  // namespace mpk::cluster::prefill
