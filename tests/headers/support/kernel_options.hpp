// The options of a kernel for tests: those of the C interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace testing {

struct KernelOptions {
    std::uint32_t struct_bytes;
    std::int32_t rank, world;
    const char* rendezvous;
    int (*exchange)(void*, const void*, void*, std::size_t);
    void* user;
    std::int32_t device;
    std::uint32_t timeout_ms, sms;
};

// As long as `name` lives.
inline KernelOptions kernel_options(const std::string& name, int world, int rank) {
    KernelOptions options{};
    options.struct_bytes = sizeof options;
    options.rank = rank;
    options.world = world;
    options.rendezvous = name.c_str();
    options.timeout_ms = 3000;
    options.sms = 2;
    return options;
}

}  // namespace testing
