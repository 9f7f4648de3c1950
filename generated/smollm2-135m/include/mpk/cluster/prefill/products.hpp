// Products of the tape's weights with the activations of a pass, by warpgroup instructions: the weights, 64
// rows at a time, come to registers and the activations stay in shared memory.
//
// The pieces of a tile's rows (tape_piece) and those of the activations (activation_offset) have the columns
// in the same order. A sum takes the chunks of its part in their order, whatever the tile.
#pragma once

#include "mpk/cluster/prefill/crew.hpp"
#include "pk/ptx/wgmma.hpp"

namespace mpk::cluster::prefill {

#if PK_SM90

// A thread's sums of an item: of token octet n, those of lane 4 g + i as fragment_offset has them.
template <class T>
struct TileSums {
    float values[T::blocks][T::block / 2];

    PK_DEVICE float at(std::uint32_t n, std::uint32_t e) const {
        constexpr std::uint32_t octets = T::block / octet;
        return values[n / octets][n % octets * 4 + e];
    }
};

// A warp's tile of the weights of a batch of chunks, a fragment for every 16 columns.
template <class T>
using Weights = std::uint32_t[T::batch][2][4];

template <class T>
PK_DEVICE void read_weights(Weights<T>& weights, std::uint32_t at) {
    PK_UNROLL
    for (std::uint32_t c = 0; c < T::batch; ++c) {
        PK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            pk::ptx::load_matrices(weights[c][half],
                                   at + c * (T::tiles * tile_bytes) + half * tape_piece(2, 0));
        }
    }
}

// Where in a stage a thread reads its weights and its tokens.
struct Places {
    std::uint32_t weights, tokens;
};

// The products of the batch that begins with chunk First of the stage. While they are computed, the weights
// of the next batch are read, if there is `more`. at: address of the stage, in the end that of the next
// batch.
template <class T, std::uint32_t First, class C>
PK_DEVICE bool multiply_batch(C& crew, TileSums<T>& sums, const Weights<T>& weights, Weights<T>& next,
                              std::uint32_t& at, const Places& places, bool more) {
    constexpr bool ends_stage = First + T::batch == T::chunks;
    const std::uint64_t rows = pk::ptx::wgmma_rows_of_64(at + places.tokens);
    pk::ptx::wgmma_fence();
    PK_UNROLL
    for (std::uint32_t c = 0; c < T::batch; ++c) {
        PK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            PK_UNROLL
            for (std::uint32_t n = 0; n < T::blocks; ++n) {
                pk::ptx::wgmma_m64k16(sums.values[n], weights[c][half],
                                      rows + ((First + c) * T::tokens + n * T::block) * 4 + half * 2);
            }
        }
    }
    pk::ptx::wgmma_commit();
    if (more) {
        if constexpr (ends_stage) at = crew.wait_stage();
        read_weights<T>(next,
                        at + places.weights + (ends_stage ? 0 : First + T::batch) * (T::tiles * tile_bytes));
    }
    pk::ptx::wgmma_wait<0>();
    if constexpr (ends_stage) crew.release_stage(more ? 2 : 1);
    return more;
}

template <class T, class C>
PK_DEVICE void multiply(C& crew, TileSums<T>& sums, std::uint32_t count) {
    const std::uint32_t group =
        __shfl_sync(~0u, crew.warp() / 4, 0);  // equal in the warp, as descriptors are
    const std::uint32_t row_group = T::row_groups == 2 ? group : 0, token_group = group - row_group;
    // Of the four matrices that the lanes load, both halves of the rows, then the next piece.
    const std::uint32_t matrix = crew.lane() / 8,
                        mine = tape_piece(matrix / 2, matrix % 2 * 8 + crew.lane() % 8);
    const Places places = {(row_group * 4 + crew.warp() % 4) * tile_bytes + mine,
                           T::size.weight_bytes() + token_group * (T::width * 64)};
    Weights<T> even, odd;
    std::uint32_t at = crew.wait_stage();
    read_weights<T>(even, at + places.weights);
    std::uint32_t left = count;
    if constexpr (T::batch == T::chunks) {
        while (multiply_batch<T, 0>(crew, sums, even, odd, at, places, --left != 0) &&
               multiply_batch<T, 0>(crew, sums, odd, even, at, places, --left != 0)) {
        }
    } else {
        static_assert(2 * T::batch == T::chunks);
        do {
            multiply_batch<T, 0>(crew, sums, even, odd, at, places, true);
        } while (multiply_batch<T, T::batch>(crew, sums, odd, even, at, places, --left != 0));
    }
}

// A part's sums to global memory.
template <class T, class C>
PK_DEVICE void put_sums(C& crew, const TileSums<T>& sums, const Product& product, const Item& item) {
    const std::uint32_t group = crew.warp() / 4, warp = crew.warp() % 4;
    const std::uint32_t t = item.first_tile + (T::row_groups == 2 ? crew.warp() : warp);
    const std::uint32_t first_row = item.first_row + (T::row_groups == 2 ? 0 : group * T::width);
    if (t >= product.tiles || first_row >= crew.pass().rows) return;
    const std::uint32_t left = crew.pass().octets() - first_row / octet;
    float4* to =
        crew.buffers.sums + fragment_offset(item.part * product.tiles + t, first_row / octet, crew.lane());
    PK_UNROLL
    for (std::uint32_t n = 0; n < T::width / octet; ++n) {
        if (n < left) to[n * 32] = {sums.at(n, 0), sums.at(n, 1), sums.at(n, 2), sums.at(n, 3)};
    }
}

PK_DEVICE void sync_warpgroup(std::uint32_t group) {
    if (group == 0) {
        pk::ptx::named_barrier_sync<2, 128>();
    } else {
        pk::ptx::named_barrier_sync<3, 128>();
    }
}

// silu(gate) * up of 32 columns of the FFN a warpgroup, a tile having 8 gate rows and their up rows, which
// make a piece of the activations; through shared memory, as a row's columns come from four warps.
template <class T, class C>
PK_DEVICE void put_ffn(C& crew, const TileSums<T>& sums, const Product& product, const Item& item) {
    const std::uint32_t group = crew.warp() / 4, warp = crew.warp() % 4, lane = crew.lane();
    const std::uint32_t g = lane / 4, i = lane % 4;
    const std::uint32_t row_group = T::row_groups == 2 ? group : 0, token_group = group - row_group;
    const std::uint32_t first_row = item.first_row + token_group * T::width;
    const std::uint32_t column_chunk = item.first_tile / 4 + row_group;
    const std::uint32_t staging =
        Memory::staging + row_group * Memory::staging_bytes + token_group * (T::width * 64);
    const auto* scales = crew.template at<const float2>(Memory::scales) + first_row / 2;
    auto* pairs = crew.template at<std::uint32_t>(staging);
    PK_UNROLL
    for (std::uint32_t n = 0; n < T::width / octet; ++n) {
        const float2 scale = scales[n * 4 + i];
        const auto value = [&](std::uint32_t e, float factor) {
            const float gate = sums.at(n, e) * factor, up = sums.at(n, 2 + e) * factor;
            return gate / (1.0f + __expf(-gate)) * up;
        };
        const std::uint32_t pair = detail::pair_columns(value(0, scale.x), value(1, scale.y), lane);
        const std::uint32_t token = n * octet + 2 * i + (g & 1);
        pairs[token * 16 + (warp ^ i) * 4 + g / 2] = pair;
    }
    sync_warpgroup(group);
    if (column_chunk * 4 < product.tiles) {
        const auto* from = crew.template at<const uint4>(staging);
        auto* to = reinterpret_cast<uint4*>(crew.buffers.ffn + activation_offset(column_chunk, first_row, 0));
        for (std::uint32_t p = crew.thread() % 128; p < T::width * 4; p += 128) to[p] = from[p];
    }
    sync_warpgroup(group);
}

// The items of a product that are this block's.
template <class T, class C>
PK_DEVICE void compute_product(C& crew, Stream which) {
    const Product product = product_of<typename C::D>(which);
    constexpr TileSize size = T::size;
    const std::uint32_t items = size.items(product, crew.pass().rows);
    _Pragma("unroll 1") for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
        TileSums<T> sums = {};
        multiply<T>(crew, sums, Item(size, product, crew.pass().rows, i).chunks.count() / T::chunks);
        // Worked out once more, as the sums leave no registers for it.
        crew.refresh();
        std::uint32_t same = i;
        asm volatile("" : "+r"(same));
        const Item item(size, product, crew.pass().rows, same);
        if (which == Stream::gate_up) {
            put_ffn<T>(crew, sums, product, item);
        } else {
            put_sums<T>(crew, sums, product, item);
        }
    }
}

#endif

}  // namespace mpk::cluster::prefill
