// Takes the place of the project's header.
#pragma once

#include "emulator/mbarrier.hpp"
#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

inline void mbarrier_init(std::uint64_t* barrier, std::uint32_t arrivals) {
    emulator::mbarrier_init(shared_address(barrier), arrivals);
}
inline void mbarrier_arrive(std::uint64_t* barrier) {
    emulator::mbarrier_arrive(shared_address(barrier), 0);
}
inline void mbarrier_init_fence() {}
inline void mbarrier_arrive_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
    emulator::mbarrier_arrive(shared_address(barrier), bytes);
}
inline bool mbarrier_try_wait(std::uint64_t* barrier, std::uint32_t parity) {
    return emulator::mbarrier_wait(shared_address(barrier), parity);
}
inline bool mbarrier_test_wait(std::uint64_t* barrier, std::uint32_t parity) {
    return emulator::mbarrier_test(shared_address(barrier), parity);
}
inline void fence_proxy_async_shared() {}

}  // namespace pk::ptx
