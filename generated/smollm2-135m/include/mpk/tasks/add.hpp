// out = a + b in f32 for the token rows of the task; out may be a or b.
#pragma once

#include "mpk/tasks/rows.hpp"
#include "pk/tile/bf16.hpp"

namespace mpk::tasks {

template <class V>
struct Add : AlwaysActive {
    static constexpr std::uint32_t scratch_bytes = 0;

    PK_DEVICE static void run(Context& ctx) {
        constexpr std::uint64_t stride = pk::tile::padded(V::n);
        const auto* a = ctx.tensor<const float>(V::slot::a);
        const auto* b = ctx.tensor<const float>(V::slot::b);
        auto* out = ctx.tensor<float>(V::slot::out);
        const std::uint32_t last = last_row(ctx);
        for (std::uint32_t row = ctx.task.begin; row < last; ++row) {
            for (std::uint32_t i = pk::thread_rank(); i < V::n; i += pk::block_threads) {
                const std::uint64_t at = row * stride + i;
                out[at] = a[at] + b[at];
            }
        }
    }
};

}  // namespace mpk::tasks
