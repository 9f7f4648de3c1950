// Plans of products of few rows: whatever the sizes and the device, each fits in what is set aside for it.
#include "pk/lcsc/narrow_plan.hpp"

#include <cstdio>
#include <cstdlib>

using namespace pk::lcsc::narrow;

namespace {

void require(bool holds, const char* what, const Plan& p, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    if (holds) return;
    std::printf(
        "FAIL %s: m %u, n %u, k %u, rows %u, splits %u, blocks %u, clusters %u, depth %u, stages %u\n", what,
        m, n, k, p.rows, p.splits, p.blocks, p.clusters, p.depth, p.stages);
    std::exit(1);
}

void check(const Plan& p, std::uint32_t m, std::uint32_t n, std::uint32_t k, std::uint32_t clusters) {
    const std::uint32_t tile = tile_rows(padded(m)), ring = p.stages * p.depth * step_bytes(m, p.rows);
    const std::uint32_t sums = step_parts(padded(m)) * padded(m) * sum_stride(p.rows) * 4;
    require(p.rows != 0 && p.rows <= max_rows && p.rows % tile == 0, "rows", p, m, n, k);
    require(p.blocks * p.rows >= n && (p.blocks - 1) * p.rows < n, "every column once", p, m, n, k);
    require(p.clusters != 0 && p.clusters <= clusters && p.clusters <= p.blocks, "clusters", p, m, n, k);
    require(p.stages >= 2 && p.stages <= max_stages && p.depth >= 1, "stages", p, m, n, k);
    // A block's memory begins at a multiple of 1024 within what it was launched with.
    require(ring + 1024 <= shared_bytes && sums + 1024 <= shared_bytes, "shared memory", p, m, n, k);
    require(p.slots() <= most_slots(n), "slots", p, m, n, k);
}

void check_best(const Clusters& clusters, std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    for (const std::uint32_t partial : {2u, 4u}) {
        const std::uint64_t room = most_slot_bytes(m, partial) / (8 * partial);
        for (const std::uint64_t pieces : {room, ~std::uint64_t{0}}) {
            const Plan p = best_plan(m, n, k, clusters, pieces);
            // Without clusters of four there may be none that exchanges so little: another kernel takes
            // those.
            require(p.clusters != 0 || clusters.fours == 0, "there is a plan", p, m, n, k);
            if (p.clusters == 0) continue;
            require(slot_pieces(m, p.rows, p.splits) <= pieces, "what is exchanged", p, m, n, k);
            for (const std::uint32_t splits : {1u, 2u, 4u}) {
                if (clusters.of(splits) == 0) continue;
                const Plan other = plan(m, n, splits, clusters.of(splits));
                const bool fits = slot_pieces(m, other.rows, splits) <= pieces;
                require(!fits || block_ns(p, m, k) <= block_ns(other, m, k), "the best", p, m, n, k);
            }
        }
    }
}

}  // namespace

int main() {
    std::uint32_t plans = 0;
    for (const std::uint32_t m : {1u, 8u, 9u, 16u, 17u, 32u, 33u, 64u, 65u, 128u}) {
        for (std::uint32_t n = 8; n < 70'000; n += n < 2000 ? 8 : 1016) {
            for (const std::uint32_t splits : {1u, 2u, 4u}) {
                for (std::uint32_t clusters = 1; clusters * splits <= most_blocks; ++clusters, ++plans)
                    check(plan(m, n, splits, clusters), m, n, 64, clusters);
            }
            for (const std::uint32_t k : {8u, 4096u, 25600u}) {
                check_best({132, 66, 30}, m, n, k);
                check_best({2, 1, 0}, m, n, k);
                check_best({16, 8, 4}, m, n, k);
            }
        }
    }
    std::printf("%u plans passed, 0 failed\n", plans);
}
