// Where the ranks of an all-reduce write: each its tiles, at all ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pk/bootstrap/bootstrap.hpp"
#include "pk/lcsc/arguments.hpp"

namespace pk::engine {

// Rows to copy when a run has ended; none where peers have written to the caller's memory itself.
struct CopyOut {
    void* to = nullptr;
    const void* from = nullptr;
    std::uint64_t to_stride = 0, from_stride = 0, row_bytes = 0, rows = 0;  // strides in bytes
};

// Memory that all ranks have shown each other.
class SharedMemory {
public:
    // Collective.
    void add(bootstrap::Exchange& exchange, void* memory, std::uint64_t bytes, int device) {
        views_.push_back({static_cast<char*>(memory), bootstrap::PeerView(exchange, memory, bytes, device)});
    }

    // Where this rank's `bytes` from `data` on are at every rank, if they are in memory that was shown: all
    // ranks have theirs at the same place of it. False if they are not.
    bool find(const void* data, std::uint64_t bytes, std::uint32_t world,
              void* (&at)[lcsc::max_ranks]) const {
        for (const Shown& shown : views_) {
            const std::uint64_t offset =
                reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(shown.own);
            bool inside = true;
            for (std::uint32_t r = 0; r < world; ++r) {
                const std::uint64_t room = shown.view.bytes(static_cast<int>(r));
                inside = inside && offset <= room && bytes <= room - offset;
            }
            if (!inside) continue;
            for (std::uint32_t r = 0; r < world; ++r) at[r] = shown.view.at(static_cast<int>(r)) + offset;
            return true;
        }
        return false;
    }

private:
    struct Shown {
        char* own;
        bootstrap::PeerView view;
    };
    std::vector<Shown> views_;
};

}  // namespace pk::engine
