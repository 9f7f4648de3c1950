// Takes the place of the project's header.
#pragma once

#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

template <std::uint32_t Barrier, std::uint32_t Threads>
void named_barrier_sync() {
    emulator::block_barrier(Barrier, Threads, false);
}
template <std::uint32_t Threads>
void named_barrier_sync(std::uint32_t barrier) {
    emulator::block_barrier(barrier, Threads, false);
}
template <std::uint32_t Barrier, std::uint32_t Threads>
bool named_barrier_any(bool vote) {
    return emulator::block_barrier(Barrier, Threads, vote);
}

}  // namespace pk::ptx
