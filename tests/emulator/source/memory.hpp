// Memory that is full of NaN at first, and of which the bytes after the last must not be touched.
#pragma once

#include <cstddef>
#include <memory>

#include "fiber.hpp"

namespace emulator {

// Null if there is no room. `bytes` are rounded up to a multiple of `align`.
void* allocate_guarded(std::size_t bytes, std::size_t align);
void free_guarded(void* memory);

// Stacks are kept for the next launch.
std::unique_ptr<Stacks> take_stacks(std::size_t count);
void recycle_stacks(std::unique_ptr<Stacks> stacks, std::size_t count);

// A value that nothing should use.
void poison(void* memory, std::size_t bytes);

}  // namespace emulator
