// out[s] = x[sample_row[s]] @ weight.T for the vocabulary range [begin, end), for each sequence s that
// samples.
#pragma once

#include "mpk/tasks/rows.hpp"
#include "pk/tile/product.hpp"

namespace mpk::tasks {

template <class V>
struct Logits : AlwaysActive {
    static constexpr std::uint32_t group = 64;  // sequences that are handled together

    struct Scratch {
        pk::tile::ProductScratch product;
        std::uint32_t sequence[group], row[group];
        std::uint32_t count, next;
    };
    static constexpr std::uint32_t scratch_bytes = sizeof(Scratch);

    PK_DEVICE static void run(Context& ctx) {
        using pk::tile::bf16;
        constexpr std::uint64_t k_stride = pk::tile::padded(V::k), n_stride = pk::tile::padded(V::n);
        const auto* x = ctx.tensor<const bf16>(V::slot::x);
        const auto* weight = ctx.tensor<const bf16>(V::slot::weight);
        auto* out = ctx.tensor<float>(V::slot::out);
        auto& scratch = *static_cast<Scratch*>(ctx.scratch);
        const std::uint32_t begin = ctx.task.begin;
        for (std::uint32_t first = 0; first < ctx.machine.batch; first = scratch.next) {
            pk::sync_block();  // everyone has read `next`
            if (pk::warp() == 0) collect(ctx.machine, first, scratch);
            pk::sync_block();
            const std::uint32_t *sequence = scratch.sequence, *x_row = scratch.row;
            pk::tile::product<V::k, 1>(
                scratch.count, ctx.task.end - begin,
                [=](std::uint32_t row) { return x + x_row[row] * k_stride; },
                [=](std::uint32_t, std::uint32_t col) { return weight + (begin + col) * k_stride; },
                scratch.product,
                [=](std::uint32_t row, std::uint32_t col, const float (&sums)[1]) {
                    out[sequence[row] * n_stride + begin + col] = sums[0];
                });
        }
    }

private:
    // Lists the sequences from `first` on that sample, and where the next group starts. One warp calls.
    PK_DEVICE static void collect(const Machine& m, std::uint32_t first, Scratch& scratch) {
        std::uint32_t count = 0, s = first;
        for (; s < m.batch && count + pk::warp_lanes <= group; s += pk::warp_lanes) {
            const std::uint32_t mine = s + pk::lane();
            const std::int32_t row = mine < m.batch ? m.step.sample_row[mine] : -1;
            const std::uint32_t votes = pk::ballot(row >= 0);
            if (row >= 0) {
                const std::uint32_t at = count + pk::count_bits(votes & ((1u << pk::lane()) - 1));
                scratch.sequence[at] = mine;
                scratch.row[at] = static_cast<std::uint32_t>(row);
            }
            count += pk::count_bits(votes);
        }
        if (pk::lane() == 0) {
            scratch.count = count;
            scratch.next = s;
        }
    }
};

}  // namespace mpk::tasks
