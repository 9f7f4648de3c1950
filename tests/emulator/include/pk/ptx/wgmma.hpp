// Takes the place of the project's header.
#pragma once

#include "emulator/warpgroup.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

// In the low half the address in units of 16 bytes, as the project adds to it; above, of pieces their stride
// and that of eight rows, in the same units.
inline std::uint64_t wgmma_rows_of_64(std::uint32_t address) {
    return address / 16;
}
inline std::uint64_t wgmma_pieces(std::uint32_t address, std::uint32_t stride,
                                  std::uint32_t eight_rows = 128) {
    if (address % 16 != 0 || stride % 16 != 0 || stride == 0 || eight_rows % 16 != 0)
        emulator::fail("wgmma_pieces that are not aligned");
    return address / 16 | std::uint64_t{stride / 16} << 32 | std::uint64_t{eight_rows / 16} << 48;
}
inline emulator::Matrix matrix_of(std::uint64_t descriptor) {
    return {static_cast<std::uint32_t>(descriptor) * 16,
            static_cast<std::uint32_t>(descriptor >> 32 & 0xffff) * 16,
            static_cast<std::uint32_t>(descriptor >> 48) * 16};
}

inline void wgmma_fence() {}
inline void wgmma_commit() {
    emulator::commit_products();
}
template <int Pending>
void wgmma_wait() {
    emulator::wait_for_products(Pending);
}

template <std::size_t Sums>
void wgmma_m64k16(float (&c)[Sums], const std::uint32_t (&a)[4], std::uint64_t b) {
    emulator::queue_product(c, Sums / 4, a, matrix_of(b));
}
template <std::size_t Sums>
void wgmma_m64k16(float (&c)[Sums], std::uint64_t a, std::uint64_t b) {
    emulator::queue_product(c, Sums / 4, matrix_of(a), matrix_of(b));
}

}  // namespace pk::ptx
