// A consumer warpgroup's products: 64 rows of a tile, over what the loader brings.
#pragma once

#include "pk/lcsc/block.hpp"
#include "pk/lcsc/lane.hpp"
#include "pk/ptx/wgmma_tile.hpp"

namespace pk::lcsc {

template <class C>
class Products {
    using L = Layout<C>;

public:
    PK_DEVICE Products(Block<C>& block, const Lane& lane) : block_(block), lane_(lane) {}

    // c = the product of the next `steps` stages, at least one. A stage is given back when the products after
    // it have been issued and its own are done.
    PK_DEVICE void multiply(float (&c)[L::sums], std::uint32_t steps) {
        multiply_stage<false>(c);
        _Pragma("unroll 1") for (std::uint32_t step = 1; step < steps; ++step) {
            const std::uint32_t before = place_.index;
            place_.advance();
            multiply_stage<true>(c);
            ptx::wgmma_wait<1>();
            give_back(before);
        }
        ptx::wgmma_wait<0>();
        ptx::wgmma_done(c);
        give_back(place_.index);
        place_.advance();
    }

    // For a warpgroup that has no rows: the same stages, and no sums.
    PK_DEVICE void skip(float (&c)[L::sums], std::uint32_t steps) {
        PK_UNROLL
        for (std::uint32_t n = 0; n < L::sums; ++n) c[n] = 0;
        PK_ROLLED
        for (std::uint32_t step = 0; step < steps; ++step) {
            wait_stage();
            give_back(place_.index);
            place_.advance();
        }
    }

private:
    PK_DEVICE void wait_stage() {
        block_.wait_all(block_.barriers().full[place_.index], place_.parity, Wait::page_full, place_.index);
    }

    // Issues the products of a stage, once it has come.
    template <bool Add>
    PK_DEVICE void multiply_stage(float (&c)[L::sums]) {
        wait_stage();
        const std::uint32_t at = ptx::shared_address(block_.memory) + place_.index * L::stage_bytes;
        const std::uint64_t rows =
            ptx::wgmma_rows_of_128(at + lane_.group * (L::rows_bytes / consumer_groups));
        const std::uint64_t weight = ptx::wgmma_rows_of_128(at + L::rows_bytes);
        ptx::wgmma_fence();
        PK_UNROLL
        for (std::uint32_t k = 0; k < L::tile_k / 16; ++k) {
            if constexpr (L::tile_n == 256) {
                ptx::wgmma_m64n256k16(c, rows + k * 2, weight + k * 2, Add || k != 0, typename C::Type{});
            } else {
                ptx::wgmma_m64n128k16(c, rows + k * 2, weight + k * 2, Add || k != 0, typename C::Type{});
            }
        }
        ptx::wgmma_commit();
    }

    // A warp's arrival at every block of the cluster: its products have read the stage.
    PK_DEVICE void give_back(std::uint32_t stage) {
        const std::uint32_t member = lane_.thread % 32;
        if (member >= members) return;
        ptx::mbarrier_arrive_peer(
            ptx::peer_address(ptx::shared_address(&block_.barriers().empty[stage]), member));
    }

    Block<C>& block_;
    Lane lane_;
    RingPlace<C::stages> place_;
};

}  // namespace pk::lcsc
