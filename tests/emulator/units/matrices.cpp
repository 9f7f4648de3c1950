// The matrix instructions against products of whole matrices, with the layouts written down element by
// element as the PTX manual has them.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"
#include "pk/ptx/mma.hpp"
#include "pk/ptx/shared_load.hpp"
#include "pk/tile/bf16.hpp"
#include "units.hpp"

namespace {

using Bits = std::uint16_t;

float value(Bits bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::vector<Bits> random_matrix(std::size_t count, unsigned int seed) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::vector<Bits> all(count);
    for (Bits& one : all) one = pk::tile::to_bf16(normal(generator)).bits;
    return all;
}

// a [16][16], b [16][8], c [16][8], all rows first.
void multiply(const Bits* a, const Bits* b, float* c) {
    const unsigned int lane = threadIdx.x;
    std::uint32_t fa[4] = {}, fb[2] = {};
    float fc[4];
    for (unsigned int row = 0; row < 16; ++row) {
        for (unsigned int column = 0; column < 16; ++column) {
            if (lane != row % 8 * 4 + column % 8 / 2) continue;
            const unsigned int i = (row < 8 ? 0 : 1) + (column < 8 ? 0 : 2);
            fa[i] |= std::uint32_t{a[row * 16 + column]} << column % 2 * 16;
        }
    }
    for (unsigned int row = 0; row < 16; ++row) {
        for (unsigned int column = 0; column < 8; ++column) {
            if (lane == column * 4 + row % 8 / 2)
                fb[row / 8] |= std::uint32_t{b[row * 8 + column]} << row % 2 * 16;
        }
    }
    const auto each = [&](auto visit) {
        for (unsigned int row = 0; row < 16; ++row) {
            for (unsigned int column = 0; column < 8; ++column) {
                if (lane == row % 8 * 4 + column / 2) visit(row / 8 * 2 + column % 2, row * 8 + column);
            }
        }
    };
    each([&](unsigned int i, unsigned int at) { fc[i] = c[at]; });
    pk::ptx::mma_m16n8k16(fc, fa, fb);
    each([&](unsigned int i, unsigned int at) { c[at] = fc[i]; });
}

// Rows of four matrices [4][8][8], from the last to the first in shared memory; v [4][lanes].
void load(const Bits* matrices, std::uint32_t* v, bool transposed) {
    unsigned char* memory = emulator::dynamic_memory();
    const unsigned int lane = threadIdx.x;
    unsigned char* row = memory + (31 - lane) * 16;
    std::memcpy(row, matrices + lane * 8, 16);
    __syncwarp();
    std::uint32_t fragment[4];
    if (transposed) {
        pk::ptx::load_matrices_transposed(fragment, pk::ptx::shared_address(row));
    } else {
        pk::ptx::load_matrices(fragment, pk::ptx::shared_address(row));
    }
    for (unsigned int n = 0; n < 4; ++n) v[n * 32 + lane] = fragment[n];
}

void transpose(const std::uint32_t* pairs, std::uint32_t* transposed) {
    transposed[threadIdx.x] = pk::ptx::transpose_matrix(pairs[threadIdx.x]);
}

}  // namespace

void units::test_transposition() {
    const std::vector<Bits> matrix = random_matrix(64, 9);
    std::vector<std::uint32_t> pairs(32), transposed(32);
    for (unsigned int lane = 0; lane < 32; ++lane) {
        const unsigned int at = lane / 4 * 8 + lane % 4 * 2;
        pairs[lane] = matrix[at] | std::uint32_t{matrix[at + 1]} << 16;
    }
    check(run(transpose, 1, 1, 32, 0, pairs.data(), transposed.data()) == cudaSuccess, "movmatrix runs");
    for (unsigned int row = 0; row < 8; ++row) {
        for (unsigned int column = 0; column < 8; ++column) {
            const std::uint32_t pair = transposed[row * 4 + column / 2];
            check(static_cast<Bits>(pair >> column % 2 * 16) == matrix[column * 8 + row], "movmatrix");
        }
    }
}

void units::test_product() {
    for (unsigned int seed = 0; seed < 4; ++seed) {
        const std::vector<Bits> a = random_matrix(256, seed), b = random_matrix(128, seed + 100);
        std::vector<float> c(128, 0.5f);
        check(run(multiply, 1, 1, 32, 1024, a.data(), b.data(), c.data()) == cudaSuccess, "mma runs");
        for (unsigned int row = 0; row < 16; ++row) {
            for (unsigned int column = 0; column < 8; ++column) {
                double expected = 0.5;
                for (unsigned int k = 0; k < 16; ++k)
                    expected += double(value(a[row * 16 + k])) * value(b[k * 8 + column]);
                check(std::abs(c[row * 8 + column] - expected) < 1e-5, "mma gives the product");
            }
        }
    }
}

void units::test_matrix_loads() {
    const std::vector<Bits> matrices = random_matrix(256, 7);
    for (const bool transposed : {false, true}) {
        std::vector<std::uint32_t> v(128);
        check(run(load, 1, 1, 32, 1024, matrices.data(), v.data(), transposed) == cudaSuccess,
              "ldmatrix runs");
        for (unsigned int n = 0; n < 4; ++n) {
            for (unsigned int row = 0; row < 8; ++row) {
                for (unsigned int column = 0; column < 8; ++column) {
                    const unsigned int r = transposed ? column : row, c = transposed ? row : column;
                    const std::uint32_t pair = v[n * 32 + r * 4 + c / 2];
                    check(static_cast<Bits>(pair >> c % 2 * 16) == matrices[n * 64 + row * 8 + column],
                          transposed ? "ldmatrix .trans" : "ldmatrix");
                }
            }
        }
    }
}
