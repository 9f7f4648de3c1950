// Takes the place of the project's header.
#pragma once

#include "emulator/warpgroup.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

// In the low half the address in units of 16 bytes, as the project adds to it; above, of pieces their stride.
inline std::uint64_t wgmma_rows_of_64(std::uint32_t address) {
    return address / 16;
}
inline std::uint64_t wgmma_pieces(std::uint32_t address, std::uint32_t stride) {
    if (address % 16 != 0 || stride % 16 != 0 || stride == 0)
        emulator::fail("wgmma_pieces that are not aligned");
    return address / 16 | std::uint64_t{stride} << 32;
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
    emulator::queue_product(c, Sums / 4, a, static_cast<std::uint32_t>(b) * 16,
                            static_cast<std::uint32_t>(b >> 32));
}

}  // namespace pk::ptx
