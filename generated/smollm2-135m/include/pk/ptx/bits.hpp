// Logic of three words in one instruction.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// a | (b ^ c). In assembler, because where only one bit of the result is looked at the compiler would take
// every word apart into predicates, of which there are seven. Volatile: it stays after the loads
// that come before, so that those go out together.
__device__ __forceinline__ std::uint32_t or_xor(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    std::uint32_t result;
    asm volatile("lop3.b32 %0, %1, %2, %3, 0xF6;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
    return result;
}

}  // namespace pk::ptx
