// out = x / sqrt(mean(x^2) + eps) * weight for the token rows of the task.
#pragma once

#include <cmath>

#include "mpk/tasks/rows.hpp"
#include "pk/tile/reduce.hpp"

namespace mpk::tasks {

template <class V>
struct RmsNorm : AlwaysActive {
    using Room = pk::tile::WarpValues<float>;
    static constexpr std::uint32_t scratch_bytes = sizeof(Room);

    PK_DEVICE static void run(Context& ctx) {
        constexpr std::uint32_t stride = pk::tile::padded(V::n);
        const auto* x = ctx.tensor<const float>(V::slot::x);
        const auto* weight = ctx.tensor<const pk::tile::bf16>(V::slot::weight);
        auto* out = ctx.tensor<pk::tile::bf16>(V::slot::out);
        auto& room = *static_cast<Room*>(ctx.scratch);
        const std::uint32_t last = last_row(ctx);
        for (std::uint32_t row = ctx.task.begin; row < last; ++row) {
            const float* from = x + std::uint64_t{row} * stride;
            pk::tile::bf16* to = out + std::uint64_t{row} * stride;
            const float mean = pk::tile::sum_of_squares(from, stride, room) / static_cast<float>(V::n);
            const float factor = 1.0f / sqrtf(mean + static_cast<float>(V::eps));
            for (std::uint32_t i = pk::thread_rank(); i < V::n; i += pk::block_threads) {
                to[i] = pk::tile::to_bf16(from[i] * factor * pk::tile::to_float(weight[i]));
            }
        }
    }
};

}  // namespace mpk::tasks
