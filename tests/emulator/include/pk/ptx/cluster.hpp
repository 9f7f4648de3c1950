// Takes the place of the project's header.
#pragma once

#include "emulator/mbarrier.hpp"
#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

inline std::uint32_t peer_address(std::uint32_t address, std::uint32_t rank) {
    return emulator::peer_address(address, rank);
}
inline void store_peer(std::uint32_t to, std::uint32_t value, std::uint32_t barrier) {
    emulator::store_peer(to, &value, sizeof value, barrier);
}
inline void store_peer(std::uint32_t to, uint2 value, std::uint32_t barrier) {
    emulator::store_peer(to, &value, sizeof value, barrier);
}
inline void store_peer(std::uint32_t to, uint4 value, std::uint32_t barrier) {
    emulator::store_peer(to, &value, sizeof value, barrier);
}
inline bool mbarrier_try_wait_cluster(std::uint32_t barrier, std::uint32_t parity) {
    return emulator::mbarrier_wait(barrier, parity);
}
inline void cluster_sync() {
    emulator::cluster_barrier();
}

}  // namespace pk::ptx
