// A tile's product on the host: fp32 sums in the order of k, whatever the shape of the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pk/lcsc/config.hpp"
#include "pk/lcsc/deal.hpp"
#include "pk/lcsc/host_element.hpp"

namespace pk::lcsc {

// Rows of a matrix in memory.
struct HostRows {
    const std::uint16_t* data;
    std::uint64_t stride;
    std::uint32_t rows;  // from `data` on; rows past them are zero

    const std::uint16_t* row(std::uint32_t r) const { return data + r * stride; }
};

struct HostWeights {
    const void *weight, *up;
    std::uint64_t stride, up_stride;
};

// Of one thread, which uses it for tile after tile.
template <class C>
struct HostScratch {
    std::vector<float> sums = std::vector<float>(C::tile_m * C::tile_n);     // [tile_m][tile_n]
    std::vector<float> rows = std::vector<float>(C::tile_m * C::tile_k);     // [tile_m][tile_k]
    std::vector<float> columns = std::vector<float>(C::tile_k * C::tile_n);  // [tile_k][tile_n]
};

namespace detail {

// sums += rows x columns. Only memory of this thread, so ThreadSanitizer need not watch.
template <class C>
[[gnu::noinline, gnu::no_sanitize_thread]] void add_product(const float* rows, const float* columns,
                                                            float* sums, std::uint32_t count) {
    constexpr std::uint32_t wide = 32;
    for (std::uint32_t r = 0; r < count; ++r) {
        for (std::uint32_t first = 0; first < C::tile_n; first += wide) {
            float* to = sums + r * C::tile_n + first;
            float sum[wide];
            for (std::uint32_t c = 0; c < wide; ++c) sum[c] = to[c];
            for (std::uint32_t k = 0; k < C::tile_k; ++k) {
                const float a = rows[r * C::tile_k + k];
                const float* b = columns + k * C::tile_n + first;
                for (std::uint32_t c = 0; c < wide; ++c) sum[c] += a * b[c];
            }
            for (std::uint32_t c = 0; c < wide; ++c) to[c] = sum[c];
        }
    }
}

template <class C>
void unpack(const HostRows& matrix, std::uint32_t row, std::uint32_t k, std::uint32_t steps, float* to,
            std::uint32_t to_step) {
    const bool there = row < matrix.rows;
    const std::uint16_t* from = there ? matrix.row(row) + k : nullptr;
    for (std::uint32_t i = 0; i < C::tile_k; ++i) {
        to[i * to_step] = there && i < steps ? element<typename C::Type>(from[i]) : 0.0f;
    }
}

}  // namespace detail

// scratch.sums = the rows times the columns of two weights side by side, over the steps of a part of k: the
// first half of the tile's columns are rows of `left`, the second of `right`.
template <class C>
void multiply_tile(const HostRows& rows, const HostRows& left, const HostRows& right, std::uint32_t k,
                   const Part& part, HostScratch<C>& scratch) {
    std::fill(scratch.sums.begin(), scratch.sums.end(), 0.0f);
    for (std::uint32_t step = part.begin; step < part.end; ++step) {
        const std::uint32_t at = step * C::tile_k;
        const std::uint32_t steps = k - at < C::tile_k ? k - at : C::tile_k;
        for (std::uint32_t r = 0; r < rows.rows; ++r) {
            detail::unpack<C>(rows, r, at, steps, &scratch.rows[r * C::tile_k], 1);
        }
        constexpr std::uint32_t half = C::tile_n / 2;
        for (std::uint32_t c = 0; c < half; ++c) {
            detail::unpack<C>(left, c, at, steps, &scratch.columns[c], C::tile_n);
            detail::unpack<C>(right, c, at, steps, &scratch.columns[half + c], C::tile_n);
        }
        detail::add_product<C>(scratch.rows.data(), scratch.columns.data(), scratch.sums.data(), rows.rows);
    }
}

}  // namespace pk::lcsc
