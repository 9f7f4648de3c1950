// Takes the place of the project's header.
#pragma once

#include "emulator/mbarrier.hpp"
#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

inline void bulk_load(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
    emulator::bulk_load(shared_address(to), from, bytes, shared_address(barrier));
}
inline void bulk_load(void* to, const void* from, std::uint32_t bytes, std::uint64_t* barrier,
                      std::uint64_t) {
    bulk_load(to, from, bytes, barrier);
}
inline void bulk_copy_to_peer(std::uint32_t to, std::uint32_t from, std::uint32_t bytes,
                              std::uint32_t barrier) {
    emulator::bulk_copy_to_peer(to, from, bytes, barrier);
}
inline std::uint64_t policy_evict_first() {
    return 0;
}

}  // namespace pk::ptx
