// The row-block product on the host: a few weight rows against a few activation rows, so that every load of a
// weight is used for all of them. Each dot product has one accumulator vector of its own, so its value does
// not depend on the shape of the block.
#pragma once

#include "pk/tile/vector.hpp"

namespace pk::tile {

struct ProductScratch {};  // nothing: the sums stay in registers

// Weight rows are a few kilobytes each, too short for the hardware to run ahead in eight of them at a time,
// so every line is asked for this long before its turn.
inline constexpr std::uint32_t prefetch_distance = 16384;

inline void prefetch_ahead(const bf16* p) {
    constexpr int to_read = 0, into_l2 = 2;
    // An address, not a pointer: it may lie past the end of the weights, which is harmless.
    const auto address = reinterpret_cast<std::uintptr_t>(p) + prefetch_distance;
    __builtin_prefetch(reinterpret_cast<const void*>(address), to_read, into_l2);
}

template <std::uint32_t K, std::uint32_t Rows, std::uint32_t Cols>
inline void multiply(const bf16* const (&x)[Rows], const bf16* const (&w)[Cols], float (&out)[Rows][Cols]) {
    Floats<lanes> sums[Rows][Cols] = {};
    for (std::uint32_t k = 0; k < padded(K); k += 2 * lanes) {
        Pairs<lanes> a[Rows];
        unroll<Rows>([&](auto r) { a[r] = load_pairs<lanes>(x[r] + k); });
        unroll<Cols>([&](auto c) {
            prefetch_ahead(w[c] + k);
            const Pairs<lanes> b = load_pairs<lanes>(w[c] + k);
            unroll<Rows>([&](auto r) {
                sums[r][c] += a[r].even * b.even;
                sums[r][c] += a[r].odd * b.odd;
            });
        });
    }
    unroll<Rows>([&](auto r) { unroll<Cols>([&](auto c) { out[r][c] = sum<lanes>(sums[r][c]); }); });
}

// The rows [row, row + Rows) and columns [col, col + Cols) of a product.
template <std::uint32_t K, std::uint32_t Matrices, std::uint32_t Rows, std::uint32_t Cols, class XRow,
          class WeightRow, class Emit>
inline void product_block(std::uint32_t row, std::uint32_t col, XRow x_row, WeightRow weight_row, Emit emit) {
    const bf16 *x[Rows], *w[Matrices * Cols];
    for (std::uint32_t r = 0; r < Rows; ++r) x[r] = x_row(row + r);
    for (std::uint32_t c = 0; c < Cols; ++c) {
        for (std::uint32_t m = 0; m < Matrices; ++m) w[c * Matrices + m] = weight_row(m, col + c);
    }
    float out[Rows][Matrices * Cols];
    multiply<K>(x, w, out);
    for (std::uint32_t r = 0; r < Rows; ++r) {
        for (std::uint32_t c = 0; c < Cols; ++c) {
            float sums[Matrices];
            for (std::uint32_t m = 0; m < Matrices; ++m) sums[m] = out[r][c * Matrices + m];
            emit(row + r, col + c, sums);
        }
    }
}

// emit(row, col, sums) for every row < rows and col < cols, where sums[m] is the dot product over K columns
// of x_row(row) and weight_row(m, col). Rows are padded with zeros to a multiple of 32 columns.
template <std::uint32_t K, std::uint32_t Matrices, class XRow, class WeightRow, class Emit>
inline void product(std::uint32_t rows, std::uint32_t cols, XRow x_row, WeightRow weight_row, ProductScratch&,
                    Emit emit) {
    constexpr std::uint32_t many =
        lanes == 16 ? 4 : 2;  // rows and weight rows that fit in registers together
    constexpr std::uint32_t block = many / Matrices;
    constexpr std::uint32_t wide = 8 / Matrices;  // weight rows read at once for a single activation row
    std::uint32_t col = 0;
    if (rows == 1) {
        for (; col + wide <= cols; col += wide) {
            product_block<K, Matrices, 1, wide>(0, col, x_row, weight_row, emit);
        }
    }
    for (; col + block <= cols; col += block) {
        std::uint32_t row = 0;
        for (; row + 4 <= rows; row += 4)
            product_block<K, Matrices, 4, block>(row, col, x_row, weight_row, emit);
        for (; row + 2 <= rows; row += 2)
            product_block<K, Matrices, 2, block>(row, col, x_row, weight_row, emit);
        for (; row < rows; ++row) product_block<K, Matrices, 1, block>(row, col, x_row, weight_row, emit);
    }
    for (; col < cols; ++col) {
        for (std::uint32_t row = 0; row < rows; ++row) {
            product_block<K, Matrices, 1, 1>(row, col, x_row, weight_row, emit);
        }
    }
}

}  // namespace pk::tile
