// The matrix instructions of a warpgroup against products of whole matrices, with the layouts written down
// element by element.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "check.hpp"
#include "pk/ptx/shared_address.hpp"
#include "pk/ptx/wgmma.hpp"
#include "pk/tile/bf16.hpp"
#include "units.hpp"

namespace {

constexpr unsigned int rows = 64, columns = 32, depth = 32;

// c [64][32] += a [64][32] b' of b [32][32], in two steps of 16. `early`: the sums are read before the wait.
void multiply(const std::uint16_t* a, const std::uint16_t* b, float* c, bool early) {
    unsigned char* memory = emulator::dynamic_memory();
    const unsigned int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, i = lane % 4;
    for (unsigned int n = threadIdx.x; n < columns; n += 128) {
        for (unsigned int k = 0; k < depth; ++k) {
            const unsigned int piece = k / 8 ^ (n / 2 & 3);
            std::memcpy(memory + n * 64 + piece * 16 + k % 8 * 2, b + n * depth + k, 2);
        }
    }
    __syncthreads();
    std::uint32_t fragment[2][4];
    for (unsigned int step = 0; step < 2; ++step) {
        for (unsigned int n = 0; n < 4; ++n) {
            const unsigned int row = warp * 16 + g + n % 2 * 8, k = step * 16 + i * 2 + n / 2 * 8;
            std::memcpy(&fragment[step][n], a + row * depth + k, 4);
        }
    }
    float sums[16];
    const auto each = [&](auto visit) {
        for (unsigned int n = 0; n < 16; ++n) {
            const unsigned int row = warp * 16 + g + n / 2 % 2 * 8, column = n / 4 * 8 + i * 2 + n % 2;
            visit(sums[n], c[row * columns + column]);
        }
    };
    each([](float& sum, float& at) { sum = at; });
    const std::uint64_t from = pk::ptx::wgmma_rows_of_64(pk::ptx::shared_address(memory));
    pk::ptx::wgmma_fence();
    for (unsigned int step = 0; step < 2; ++step) {
        pk::ptx::wgmma_m64k16(sums, fragment[step], from + step * 2);
    }
    pk::ptx::wgmma_commit();
    if (early) each([](float& sum, float& at) { at = sum; });
    pk::ptx::wgmma_wait<0>();
    if (!early) each([](float& sum, float& at) { at = sum; });
}

// c [64][2 * Sums] = a [64][16] b' of b [2 * Sums][16], both as pieces in shared memory: groups of eight rows
// of a `eight_rows` bytes apart, pieces of b `stride`.
template <std::size_t Sums>
void multiply_pieces(const std::uint16_t* a, const std::uint16_t* b, float* c, std::uint32_t eight_rows,
                     std::uint32_t stride) {
    unsigned char* memory = emulator::dynamic_memory();
    const unsigned int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, i = lane % 4;
    constexpr unsigned int count = Sums * 2, of_b = 16384;
    for (unsigned int p = 0; p < 2 && threadIdx.x == 0; ++p) {
        // Where pieces overlap, row 0 of the second is there in the end.
        for (unsigned int n = 0; n < count; ++n)
            std::memcpy(memory + of_b + p * stride + n * 16, b + n * 16 + p * 8, 16);
        for (unsigned int n = 0; n < rows; ++n)
            std::memcpy(memory + p * 128 + n / 8 * eight_rows + n % 8 * 16, a + n * 16 + p * 8, 16);
    }
    __syncthreads();
    float sums[Sums] = {};
    const std::uint32_t at = pk::ptx::shared_address(memory);
    pk::ptx::wgmma_fence();
    pk::ptx::wgmma_m64k16(sums, pk::ptx::wgmma_pieces(at, 128, eight_rows),
                          pk::ptx::wgmma_pieces(at + of_b, stride));
    pk::ptx::wgmma_commit();
    pk::ptx::wgmma_wait<0>();
    for (unsigned int n = 0; n < Sums; ++n) {
        const unsigned int row = warp * 16 + g + n / 2 % 2 * 8, column = n / 4 * 8 + i * 2 + n % 2;
        c[row * count + column] = sums[n];
    }
}

float number(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// `used`: rows of b that are looked at.
template <std::size_t Sums>
void check_pieces(std::uint32_t eight_rows, std::uint32_t stride, unsigned int used, const char* what) {
    constexpr unsigned int count = Sums * 2;
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> a(rows * 16), b(count * 16);
    for (auto* matrix : {&a, &b}) {
        for (std::uint16_t& one : *matrix) one = pk::tile::to_bf16(normal(generator)).bits;
    }
    std::vector<float> c(rows * count);
    units::check(units::run(multiply_pieces<Sums>, 1, 1, 128, 32768, a.data(), b.data(), c.data(), eight_rows,
                            stride) == cudaSuccess,
                 "wgmma of pieces runs");
    for (unsigned int row = 0; row < rows; ++row) {
        for (unsigned int column = 0; column < used; ++column) {
            double expected = 0;
            for (unsigned int k = 0; k < 16; ++k)
                expected += double(number(a[row * 16 + k])) * number(b[column * 16 + k]);
            units::check(std::abs(c[row * count + column] - expected) < 1e-4, what);
        }
    }
}

}  // namespace

void units::test_warpgroup_pieces() {
    check_pieces<4>(512, 128, 8, "wgmma of 8 rows in pieces");
    check_pieces<4>(256, 1024, 8, "wgmma of 8 rows in pieces far apart");
    check_pieces<8>(512, 256, 16, "wgmma of 16 rows in pieces");
    check_pieces<4>(512, 16, 1, "wgmma of a row of pieces");
}

void units::test_warpgroup_product() {
    std::mt19937 generator(3);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> a(rows * depth), b(columns * depth);
    for (auto* matrix : {&a, &b}) {
        for (std::uint16_t& one : *matrix) one = pk::tile::to_bf16(normal(generator)).bits;
    }
    const auto value = [](std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); };
    for (const bool early : {false, true}) {
        std::vector<float> c(rows * columns, 0.5f);
        check(run(multiply, 1, 1, 128, 4096, a.data(), b.data(), c.data(), early) == cudaSuccess,
              "wgmma runs");
        bool right = true;
        for (unsigned int row = 0; row < rows; ++row) {
            for (unsigned int column = 0; column < columns; ++column) {
                double expected = 0.5;
                for (unsigned int k = 0; k < depth; ++k)
                    expected += double(value(a[row * depth + k])) * value(b[column * depth + k]);
                right = right && std::abs(c[row * columns + column] - expected) < 1e-4;
            }
        }
        check(right != early, early ? "wgmma is asynchronous" : "wgmma gives the product");
    }
}
