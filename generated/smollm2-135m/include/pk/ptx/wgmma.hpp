// Tensor core products of a warpgroup (wgmma), asynchronous: 64 x 16 of bf16 from registers or shared memory
// by 16 x N from shared memory, added to fp32. sm_90a only, so nothing here may be called on another chip.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// A matrix of N rows of 64 bytes (32 bf16, which are 32 steps of the sum) in shared memory: row after row,
// the four 16-byte pieces of row r at piece ^ (r / 2 & 3), as the 64-byte swizzle has them. `address` is a
// multiple of 512. Adding 2 to the descriptor moves on by 16 steps, adding 4 by a row.
__device__ __forceinline__ std::uint64_t wgmma_rows_of_64(std::uint32_t address) {
    constexpr std::uint64_t swizzle_64 = std::uint64_t{2} << 62, eight_rows = std::uint64_t{512 >> 4} << 32;
    return swizzle_64 | eight_rows | std::uint64_t{1} << 16 | (address & 0x3ffff) >> 4;
}

// A matrix in shared memory of which 16 bytes (8 steps of the sum) of eight rows lie together: row r of the
// piece p begins at address + p * stride + r / 8 * eight_rows + r % 8 * 16. All are multiples of 16. Adding n
// to the descriptor moves the address by 16 n bytes. Rows may overlap: where only the sums of row 0 are used,
// a stride of 16 will do.
__device__ __forceinline__ std::uint64_t wgmma_pieces(std::uint32_t address, std::uint32_t stride,
                                                      std::uint32_t eight_rows = 128) {
    return std::uint64_t{eight_rows >> 4} << 32 | std::uint64_t{stride >> 4} << 16 | (address & 0x3ffff) >> 4;
}

// Before the first product of a batch: what the threads wrote to the registers of its operands.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
}
// The products so far are a batch.
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
}
// Until all batches but the last `Pending` are done: their operands may be written and their sums read.
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(Pending) : "memory");
}

// c += a b', all warps of the warpgroup together; warp w has rows 16 w .. 16 w + 15 of a and c. a as in
// mma_m16n8k16, b by one of the functions above, c[4 n ..]: as there, of columns 8 n .. 8 n + 7.
__device__ __forceinline__ void wgmma_m64k16(float (&c)[16], const std::uint32_t (&a)[4], std::uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, add, 1, 1, 0;\n"
        "}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void wgmma_m64k16(float (&c)[32], const std::uint32_t (&a)[4], std::uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n"
        "}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),
          "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),
          "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),
          "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void wgmma_m64k16(float (&c)[64], const std::uint32_t (&a)[4], std::uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
        "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
        "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
        "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, 0;\n"
        "}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]),
          "+f"(c[15]), "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]),
          "+f"(c[22]), "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]),
          "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]),
          "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]), "+f"(c[41]), "+f"(c[42]),
          "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]), "+f"(c[49]),
          "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
          "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// The same with a, 64 rows, in shared memory as pieces.
__device__ __forceinline__ void wgmma_m64k16(float (&c)[4], std::uint64_t a, std::uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, add, 1, 1, 0, 0;\n"
        "}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "l"(a), "l"(b));
}
__device__ __forceinline__ void wgmma_m64k16(float (&c)[8], std::uint64_t a, std::uint64_t b) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.eq.u32 add, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, add, "
        "1, 1, 0, 0;\n"
        "}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
        : "l"(a), "l"(b));
}

}  // namespace pk::ptx
