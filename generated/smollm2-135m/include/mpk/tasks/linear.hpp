// out = x @ weight.T (+ bias) (+ residual) for the output columns [begin, end) of all rows of the step.
#pragma once

#include "mpk/tasks/rows.hpp"
#include "pk/tile/product.hpp"

namespace mpk::tasks {

template <class V>
struct Linear : AlwaysActive {
    using Scratch = pk::tile::ProductScratch;
    static constexpr std::uint32_t scratch_bytes = sizeof(Scratch);

    PK_DEVICE static void run(Context& ctx) {
        using pk::tile::bf16;
        constexpr std::uint64_t k_stride = pk::tile::padded(V::k), n_stride = pk::tile::padded(V::n);
        const auto* x = ctx.tensor<const bf16>(V::slot::x);
        const auto* weight = ctx.tensor<const bf16>(V::slot::weight);
        auto* out = ctx.tensor<float>(V::slot::out);
        const std::uint32_t begin = ctx.task.begin;
        pk::tile::product<V::k, 1>(
            *ctx.machine.step.row_count, ctx.task.end - begin,
            [=](std::uint32_t row) { return x + row * k_stride; },
            [=](std::uint32_t, std::uint32_t col) { return weight + (begin + col) * k_stride; },
            *static_cast<Scratch*>(ctx.scratch),
            [=, &ctx](std::uint32_t row, std::uint32_t col, const float (&sums)[1]) {
                const std::uint64_t at = row * n_stride + begin + col;
                float value = sums[0];
                if constexpr (V::has_bias) {
                    value += pk::tile::to_float(ctx.tensor<const bf16>(V::slot::bias)[begin + col]);
                }
                // The residual may be `out` itself: each element is read and written by this thread alone.
                if constexpr (V::has_residual) value += ctx.tensor<const float>(V::slot::residual)[at];
                out[at] = value;
            });
    }
};

}  // namespace mpk::tasks
