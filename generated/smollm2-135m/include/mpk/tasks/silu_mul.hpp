// out = silu(gate) * up, f32 to bf16, for the token rows of the task.
#pragma once

#include "mpk/tasks/rows.hpp"
#include "pk/tile/math.hpp"

namespace mpk::tasks {

template <class V>
struct SiluMul : AlwaysActive {
    static constexpr std::uint32_t scratch_bytes = 0;

    PK_DEVICE static void run(Context& ctx) {
        constexpr std::uint64_t stride = pk::tile::padded(V::n);
        const auto* gate = ctx.tensor<const float>(V::slot::gate);
        const auto* up = ctx.tensor<const float>(V::slot::up);
        auto* out = ctx.tensor<pk::tile::bf16>(V::slot::out);
        const std::uint32_t last = last_row(ctx);
        for (std::uint32_t row = ctx.task.begin; row < last; ++row) {
            for (std::uint32_t i = pk::thread_rank(); i < V::n; i += pk::block_threads) {
                const std::uint64_t at = row * stride + i;
                out[at] = pk::tile::to_bf16(pk::tile::silu(gate[at]) * up[at]);
            }
        }
    }
};

}  // namespace mpk::tasks
