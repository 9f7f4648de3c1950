#include "emulator/matrix.hpp"

#include <bit>
#include <cstring>

#include "emulator/thread.hpp"

namespace emulator {

namespace {

struct Product {
    float* c;
    const std::uint32_t *a, *b;
};

float low(std::uint32_t pair) {
    return std::bit_cast<float>(pair << 16);
}
float high(std::uint32_t pair) {
    return std::bit_cast<float>(pair & 0xffff0000u);
}

void multiply(void* const* operands, std::uint32_t came) {
    if (came != ~0u) fail("mma without all lanes: %08x", came);
    float a[16][16], b[16][8];
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        const auto& one = *static_cast<const Product*>(operands[lane]);
        const std::uint32_t g = lane / 4, i = lane % 4 * 2;
        for (std::uint32_t n = 0; n < 4; ++n) {
            const std::uint32_t row = g + n % 2 * 8, k = i + n / 2 * 8;
            a[row][k] = low(one.a[n]);
            a[row][k + 1] = high(one.a[n]);
        }
        for (std::uint32_t n = 0; n < 2; ++n) {
            b[i + n * 8][g] = low(one.b[n]);
            b[i + n * 8 + 1][g] = high(one.b[n]);
        }
    }
    float sum[16][8] = {};
    for (std::uint32_t row = 0; row < 16; ++row) {
        for (std::uint32_t k = 0; k < 16; ++k) {
            for (std::uint32_t column = 0; column < 8; ++column) sum[row][column] += a[row][k] * b[k][column];
        }
    }
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        float* c = static_cast<const Product*>(operands[lane])->c;
        const std::uint32_t g = lane / 4, i = lane % 4 * 2;
        for (std::uint32_t n = 0; n < 4; ++n) c[n] += sum[g + n / 2 * 8][i + n % 2];
    }
}

struct Load {
    std::uint32_t* v;
    const void* row;
};

template <bool Transposed>
void load(void* const* operands, std::uint32_t came) {
    if (came != ~0u) fail("ldmatrix without all lanes: %08x", came);
    for (std::uint32_t n = 0; n < 4; ++n) {
        std::uint16_t m[8][8];
        for (std::uint32_t r = 0; r < 8; ++r) {
            std::memcpy(m[r], static_cast<const Load*>(operands[n * 8 + r])->row, sizeof m[r]);
        }
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
            const std::uint32_t g = lane / 4, i = lane % 4 * 2;
            const std::uint16_t first = Transposed ? m[i][g] : m[g][i];
            const std::uint16_t second = Transposed ? m[i + 1][g] : m[g][i + 1];
            static_cast<const Load*>(operands[lane])->v[n] = first | std::uint32_t{second} << 16;
        }
    }
}

void transpose(void* const* operands, std::uint32_t came) {
    if (came != ~0u) fail("movmatrix without all lanes: %08x", came);
    std::uint16_t m[8][8];
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        const std::uint32_t pair = *static_cast<const std::uint32_t*>(operands[lane]);
        m[lane / 4][lane % 4 * 2] = static_cast<std::uint16_t>(pair);
        m[lane / 4][lane % 4 * 2 + 1] = static_cast<std::uint16_t>(pair >> 16);
    }
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        const std::uint32_t g = lane / 4, i = lane % 4 * 2;
        *static_cast<std::uint32_t*>(operands[lane]) = m[i][g] | std::uint32_t{m[i + 1][g]} << 16;
    }
}

}  // namespace

void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    Product mine = {c, a, b};
    together(~0u, multiply, &mine);
}

void load_matrices(std::uint32_t (&v)[4], std::uint32_t row, bool transposed) {
    Load mine = {v, shared_pointer(row, 16)};
    together(~0u, transposed ? load<true> : load<false>, &mine);
}

std::uint32_t transpose_matrix(std::uint32_t pair) {
    together(~0u, transpose, &pair);
    return pair;
}

}  // namespace emulator
