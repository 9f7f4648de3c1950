#include "emulator/warpgroup.hpp"

#include <bit>
#include <cstring>
#include <deque>
#include <unordered_map>
#include <vector>

#include "emulator/thread.hpp"

namespace emulator {

namespace {

struct Product {
    float* c;
    std::uint32_t octets;
    const std::uint32_t* a;   // null: in shared memory
    std::uint32_t first_row;  // of a, there
    Matrix shared, b;
};

struct Queue {
    std::vector<Product> open;
    std::deque<std::vector<Product>> batches;
};

Queue& queue_of_thread() {
    static std::unordered_map<const Thread*, Queue> queues;
    return queues[running];
}

float number(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

// Row n, column k of the 16 columns.
float element(const Matrix& m, std::uint32_t n, std::uint32_t k) {
    const std::uint32_t logical = m.address + n * 64 + k * 2, swizzled = logical ^ (logical >> 7 & 3) << 4;
    const std::uint32_t piece = m.address + k / 8 * m.stride + n / 8 * m.eight_rows + n % 8 * 16 + k % 8 * 2;
    const std::uint32_t at = m.stride == 0 ? swizzled : piece;
    std::uint16_t bits;
    std::memcpy(&bits, shared_pointer(at, sizeof bits), sizeof bits);
    return number(bits);
}

void multiply(void* const* operands, std::uint32_t came) {
    if (came != ~0u) fail("wgmma without all lanes: %08x", came);
    const auto& first = *static_cast<const Product*>(operands[0]);
    float a[16][16];
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        const auto& one = *static_cast<const Product*>(operands[lane]);
        if (!(one.b == first.b && one.shared == first.shared && one.octets == first.octets))
            fail("wgmma whose lanes differ");
        if (one.a == nullptr) continue;
        const std::uint32_t g = lane / 4, i = lane % 4 * 2;
        for (std::uint32_t n = 0; n < 4; ++n) {
            const std::uint32_t row = g + n % 2 * 8, k = i + n / 2 * 8;
            a[row][k] = number(static_cast<std::uint16_t>(one.a[n]));
            a[row][k + 1] = number(static_cast<std::uint16_t>(one.a[n] >> 16));
        }
    }
    for (std::uint32_t row = 0; row < 16 && first.a == nullptr; ++row) {
        for (std::uint32_t k = 0; k < 16; ++k) a[row][k] = element(first.shared, first.first_row + row, k);
    }
    for (std::uint32_t octet = 0; octet < first.octets; ++octet) {
        float sum[16][8] = {}, b[8][16];
        for (std::uint32_t n = 0; n < 8; ++n) {
            for (std::uint32_t k = 0; k < 16; ++k) b[n][k] = element(first.b, octet * 8 + n, k);
        }
        for (std::uint32_t row = 0; row < 16; ++row) {
            for (std::uint32_t n = 0; n < 8; ++n) {
                for (std::uint32_t k = 0; k < 16; ++k) sum[row][n] += a[row][k] * b[n][k];
            }
        }
        for (std::uint32_t lane = 0; lane < lanes; ++lane) {
            float* c = static_cast<const Product*>(operands[lane])->c + octet * 4;
            const std::uint32_t g = lane / 4, i = lane % 4 * 2;
            for (std::uint32_t n = 0; n < 4; ++n) c[n] += sum[g + n / 2 * 8][i + n % 2];
        }
    }
}

}  // namespace

void queue_product(float* c, std::uint32_t octets, const std::uint32_t (&a)[4], const Matrix& b) {
    queue_of_thread().open.push_back({c, octets, a, 0, {}, b});
}
void queue_product(float* c, std::uint32_t octets, const Matrix& a, const Matrix& b) {
    const std::uint32_t first_row = running->index.x / lanes % 4 * 16;
    queue_of_thread().open.push_back({c, octets, nullptr, first_row, a, b});
}

void commit_products() {
    Queue& queue = queue_of_thread();
    queue.batches.push_back(std::move(queue.open));
    queue.open.clear();
}

void wait_for_products(std::uint32_t pending) {
    Queue& queue = queue_of_thread();
    while (queue.batches.size() > pending) {
        // The lanes of a warp come with equal queues, or `multiply` says so.
        for (Product& one : queue.batches.front()) together(~0u, multiply, &one);
        queue.batches.pop_front();
    }
}

}  // namespace emulator
