// Copies that go with a run, where the kernel cannot use the caller's memory itself.
#pragma once

#include <cstdint>

namespace pk::engine {

// Strides in bytes. rows 0: nothing to copy.
struct RowCopy {
    void* to = nullptr;
    const void* from = nullptr;
    std::uint64_t to_stride = 0, from_stride = 0, row_bytes = 0, rows = 0;
};

// The caller's output of this rank.
struct OwnOutput {
    void* data = nullptr;
    std::uint32_t stride = 0;  // elements
};

}  // namespace pk::engine
