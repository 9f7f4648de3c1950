// Stacks, and the switch from one to another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

// Stacks of equal size next to each other, with pages below that must not be touched.
class Stacks {
public:
    static constexpr std::size_t bytes = 16384;  // of one

    explicit Stacks(std::size_t count);
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;
    ~Stacks();

    // Makes stack `i` one that begins with entry(); returns what switch_stack takes for it.
    void* prepare(std::size_t i, void (*entry)());
    // Whether stack `i` has room below `at`, which lies in it.
    bool has_room(std::size_t i, const void* at) const;

private:
    std::size_t count_;
    unsigned char* memory_;
};

// Keeps where the caller is in `from`, and goes on where `to` was kept.
extern "C" void emulator_switch_stack(void** from, void* to);

}  // namespace emulator
