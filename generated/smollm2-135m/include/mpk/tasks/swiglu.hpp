// out = silu(x @ gate.T) * (x @ up.T) for the output columns [begin, end) of all rows of the step.
#pragma once

#include "mpk/tasks/rows.hpp"
#include "pk/tile/math.hpp"
#include "pk/tile/product.hpp"

namespace mpk::tasks {

template <class V>
struct SwiGlu : AlwaysActive {
    using Scratch = pk::tile::ProductScratch;
    static constexpr std::uint32_t scratch_bytes = sizeof(Scratch);

    PK_DEVICE static void run(Context& ctx) {
        using pk::tile::bf16;
        constexpr std::uint64_t k_stride = pk::tile::padded(V::k), n_stride = pk::tile::padded(V::n);
        const auto* x = ctx.tensor<const bf16>(V::slot::x);
        const auto* gate = ctx.tensor<const bf16>(V::slot::gate);
        const auto* up = ctx.tensor<const bf16>(V::slot::up);
        auto* out = ctx.tensor<bf16>(V::slot::out);
        const std::uint32_t begin = ctx.task.begin;
        pk::tile::product<V::k, 2>(
            *ctx.machine.step.row_count, ctx.task.end - begin,
            [=](std::uint32_t row) { return x + row * k_stride; },
            [=](std::uint32_t matrix, std::uint32_t col) {
                return (matrix == 0 ? gate : up) + (begin + col) * k_stride;
            },
            *static_cast<Scratch*>(ctx.scratch),
            [=](std::uint32_t row, std::uint32_t col, const float (&sums)[2]) {
                out[row * n_stride + begin + col] = pk::tile::to_bf16(pk::tile::silu(sums[0]) * sums[1]);
            });
    }
};

}  // namespace mpk::tasks
