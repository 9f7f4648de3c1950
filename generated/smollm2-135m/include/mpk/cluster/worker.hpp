// The kernel of the cluster worker: consumers and a loader in every block, steps until the call is over or
// goes on with fewer rows in the next kernel.
#pragma once

#include "mpk/cluster/attention.hpp"
#include "mpk/cluster/finish.hpp"
#include "mpk/cluster/loader.hpp"
#include "mpk/cluster/streams.hpp"
#include "pk/ptx/registers.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// Sines and cosines of every row's position, for all layers of the step. Of one row by warps that have
// nothing to do in the first gather.
template <class B>
PK_DEVICE void put_angles(B& block) {
    using D = typename B::D;
    constexpr std::uint32_t half = D::head / 2;
    auto* angles = block.template at<float2>(B::L::angles);
    const std::uint32_t thread = (block.thread() + consumers / 2) % consumers;
    for (std::uint32_t i = thread; i < block.rows() * half; i += consumers) {
        float2 a = {1, 0};
        if constexpr (D::has_rope) {
            const float angle = static_cast<float>(block.board().position[i / half]) *
                                pk::tile::rope_table<D>.value[i % half];
            a = {::cosf(angle), ::sinf(angle)};
        }
        angles[i] = a;
    }
}

template <class Program, std::uint32_t R>
PK_DEVICE void consume(const Machine& m, const Setup& setup, unsigned char* memory) {
    using D = typename Program::Decoder;
    Block<D, R> block(m, setup, memory);
    const bool attends = block.attends();
    for (;;) {
        block.enter(0);
        if (block.warp() == 0) {
            const bool came =
                block.patience.until_all([&] { return epoch_reached(setup, block.step()); }, 0, block.step());
            read_board<D, R>(m, setup, block.control().step, block.lane());
            if (!came && block.lane() == 0) block.control().step.rows = 0;
        }
        block.sync();
        if (block.control().step.rows == 0) break;
        share_attention(block);
        put_angles(block);
        // The streams of all layers in their order, and the logits.
        _Pragma("unroll 1") for (std::uint32_t i = 0;; ++i) {
            const std::uint32_t layer = i / layer_streams;
            const bool last = layer == D::layers;
            const Stream which = last ? Stream::logits : static_cast<Stream>(i % layer_streams);
            const bool of_group = which == Stream::qkv || which == Stream::output;
            const bool has_part = last ? block.board().samplers != 0 : attends || !of_group;
            if (which == Stream::output) {
                if (!attends) continue;
                attend(block, layer);
            }
            stream(block, which, layer, has_part, [&] {
                if (which == Stream::output || which == Stream::down) return;
                const bool first = which != Stream::gate_up;
                block.enter(op_of<D>(layer, first ? LayerOp::norm : LayerOp::ffn_norm));
                // The last warp has the least to do in a gather.
                if (first && !last && attends && block.uniform_warp() == consumer_warps - 1)
                    fetch_head_norms(block, layer);
                const Source source = i == 0 ? Source::embedding : first ? Source::down : Source::output;
                const auto* weights = last    ? setup.final_norm
                                      : first ? block.weights(layer).attention_norm
                                              : block.weights(layer).ffn_norm;
                gather(block, source, weights, block.turn(layer) - (first ? 1 : 0), last || has_part);
                if (which == Stream::qkv && !attends && block.thread() == 0) {
                    pk::ptx::store_volatile(&block.control().summed,
                                            block.turn(layer) + 1);  // only paces the loader
                }
            });
            if (last) break;
        }
        finish_step<Program>(block);
        // Threads give up one by one, but leave together: the others would wait for them at a barrier.
        if (block.any(block.patience.gone())) break;
        block.next_step();
    }
    block.patience.report();
    if (block.thread() == 0) pk::ptx::store_volatile(&block.control().leaving, 1u);
}

}  // namespace detail

// All threads of a block of block_size call, in clusters of `members` blocks that run at the same time.
template <class Program, std::uint32_t R>
PK_DEVICE void cluster_main(const Machine& m, const Setup& setup, unsigned char* memory) {
    using D = typename Program::Decoder;
    using L = Layout<D, R>;
    auto& control = *reinterpret_cast<Control*>(memory + L::control);
    const std::uint32_t thread = threadIdx.x, cluster = blockIdx.x / members;
    if (thread == 0) {
        for (std::uint32_t p = 0; p < most_pages; ++p) {
            pk::ptx::mbarrier_init(&control.full[p], 1);
            pk::ptx::mbarrier_init(&control.empty[p], consumer_warps);
        }
        for (auto& barrier : control.exchange) pk::ptx::mbarrier_init(&barrier, 1);
        pk::ptx::mbarrier_init(&control.keys_begin, 1);
        pk::ptx::mbarrier_init(&control.keys_end, 1);
        pk::ptx::mbarrier_init_fence();
        control.started = control.leaving = control.ready = control.summed = control.turns = 0;
        control.keys = {};
        control.drawn = pk::load_relaxed(setup.drawn);
    }
    using S = Shares<D>;
    for (std::uint32_t i = thread; i < S::streams; i += block_size) {
        const std::uint32_t layer = i / layer_streams;
        const bool last = layer == D::layers;
        const FfnShare ffn = last ? FfnShare{} : setup.ffn[layer * setup.clusters + cluster];
        const Stream which = last ? Stream::logits : static_cast<Stream>(i % layer_streams);
        reinterpret_cast<StoredTiles*>(memory + L::tiles)[i] =
            StoredTiles::of(S::tiles(which, blockIdx.x, gridDim.x, layer, ffn));
    }
    for (std::uint32_t layer = thread; layer < D::layers; layer += block_size) {
        reinterpret_cast<LayerWeights*>(memory + L::weights)[layer] = setup.layers[layer];
    }
    // Activations of rows that a batch does not fill must hold numbers.
    for (std::uint32_t i = L::hidden + thread * 4; i < L::end; i += block_size * 4) {
        *reinterpret_cast<std::uint32_t*>(memory + i) = 0;
    }
    pk::ptx::fence_proxy_async_shared();  // before the copies of peers
    const std::uint32_t first_step = pk::load_acquire(setup.epoch);
    if (thread == 0) control.number = first_step;
    __syncthreads();
    pk::ptx::cluster_sync();
    if (thread < consumers) {
        pk::ptx::take_registers<216>();
        detail::consume<Program, R>(m, setup, memory);
    } else {
        pk::ptx::give_back_registers<72>();
        Loader<D, R> loader(m, setup, memory);
        if (thread / 32 == consumer_warps) loader.run(first_step);
        if (thread / 32 == consumer_warps + 1) loader.help();
    }
    // Peers store to this block's shared memory until they leave too.
    pk::ptx::cluster_sync();
}

#endif

}  // namespace mpk::cluster
