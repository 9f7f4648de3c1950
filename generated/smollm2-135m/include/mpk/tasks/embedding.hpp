// out[r] = table[tokens[r]], bf16 to f32, for the token rows of the task.
#pragma once

#include "mpk/tasks/rows.hpp"
#include "pk/tile/bf16.hpp"

namespace mpk::tasks {

template <class V>
struct Embedding : AlwaysActive {
    static constexpr std::uint32_t scratch_bytes = 0;

    PK_DEVICE static void run(Context& ctx) {
        constexpr std::uint64_t stride = pk::tile::padded(V::hidden);
        const auto* tokens = ctx.tensor<const std::int32_t>(V::slot::tokens);
        const auto* table = ctx.tensor<const pk::tile::bf16>(V::slot::table);
        auto* out = ctx.tensor<float>(V::slot::out);
        const std::uint32_t last = last_row(ctx);
        for (std::uint32_t row = ctx.task.begin; row < last; ++row) {
            const pk::tile::bf16* from = table + static_cast<std::uint64_t>(tokens[row]) * stride;
            float* to = out + row * stride;
            for (std::uint32_t i = pk::thread_rank(); i < V::hidden; i += pk::block_threads) {
                to[i] = pk::tile::to_float(from[i]);
            }
        }
    }
};

}  // namespace mpk::tasks
