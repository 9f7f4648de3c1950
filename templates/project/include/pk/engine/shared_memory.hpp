// Memory of the callers that peers read and write themselves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "pk/bootstrap/bootstrap.hpp"
#include "pk/lcsc/call.hpp"

namespace pk::engine {

// Memory that all ranks have shown each other.
class SharedMemory {
public:
    // Collective.
    void add(bootstrap::Exchange& exchange, void* memory, std::uint64_t bytes, int device) {
        views_.push_back({static_cast<char*>(memory), bootstrap::PeerView(exchange, memory, bytes, device)});
    }

    // Where this rank's `bytes` from `data` on are at every rank, if they are in memory that was shown: all
    // ranks have theirs at the same place of it, which is returned (the views one after the other).
    std::optional<std::uint64_t> find(const void* data, std::uint64_t bytes, std::uint32_t world,
                                      void* (&at)[lcsc::max_ranks]) const {
        std::uint64_t before = 0;
        for (const Shown& shown : views_) {
            const std::uint64_t offset =
                reinterpret_cast<std::uintptr_t>(data) - reinterpret_cast<std::uintptr_t>(shown.own);
            bool inside = true;
            std::uint64_t most = 0;
            for (std::uint32_t r = 0; r < world; ++r) {
                const std::uint64_t room = shown.view.bytes(static_cast<int>(r));
                inside = inside && offset <= room && bytes <= room - offset;
                most = std::max(most, room);
            }
            if (inside) {
                for (std::uint32_t r = 0; r < world; ++r) {
                    at[r] = shown.view.at(static_cast<int>(r)) + offset;
                }
                return before + offset;
            }
            before += most;
        }
        return {};
    }

private:
    struct Shown {
        char* own;
        bootstrap::PeerView view;
    };
    std::vector<Shown> views_;
};

}  // namespace pk::engine
