// Takes the place of the project's header: a fiber has its stack.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

template <std::uint32_t Registers>
void take_registers() {}
template <std::uint32_t Registers>
void give_back_registers() {}

}  // namespace pk::ptx
