// The matrix instructions of a warpgroup. They are asynchronous: each is carried out as late as it may be,
// when the thread waits for its batch, so that operands which were written meanwhile give other results.
#pragma once

#include <cstdint>

namespace emulator {

// A matrix in shared memory, of which 32 bytes of each row are used. With a stride of 0 rows lie 64 bytes
// apart, with the 16-byte pieces of a row at piece ^ (row / 2 & 3); else 16 bytes apart, the pieces of a row
// `stride` bytes, and groups of eight rows `eight_rows`.
struct Matrix {
    std::uint32_t address, stride, eight_rows;
    bool operator==(const Matrix&) const = default;
};

// c += a b': this warp's 16 rows of a, of 16 columns, as mma_m16n8k16 has them in registers; 8 * octets rows
// of b. c: four values for each 8 rows of b.
void queue_product(float* c, std::uint32_t octets, const std::uint32_t (&a)[4], const Matrix& b);
// The same with the warpgroup's 64 rows of a in shared memory.
void queue_product(float* c, std::uint32_t octets, const Matrix& a, const Matrix& b);

// What was queued since the last call is a batch.
void commit_products();

// Carries out all batches but the last `pending`.
void wait_for_products(std::uint32_t pending);

}  // namespace emulator
