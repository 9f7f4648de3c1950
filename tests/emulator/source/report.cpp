// What is printed when a launch cannot go on.
#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "emulator/mbarrier.hpp"
#include "launch.hpp"

namespace emulator {

namespace {

constexpr int most_lines = 48;

// File and line of an address in the library, as far as it can be told.
std::string place_of(const void* address) {
    Dl_info info = {};
    if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "?";
    const auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase) - 1;
    char command[1024];
    std::snprintf(command, sizeof command, "addr2line -i -s -e '%s' 0x%tx 2>/dev/null", info.dli_fname,
                  offset);
    std::string lines;
    if (FILE* pipe = popen(command, "r")) {
        char line[256];
        for (int i = 0; i < 5 && std::fgets(line, sizeof line, pipe) != nullptr; ++i) {
            line[std::strcspn(line, "\n")] = 0;
            lines += (lines.empty() ? "" : " < ") + std::string(line);
        }
        pclose(pipe);
    }
    return lines.empty() ? "?" : lines;
}

std::string describe(const Thread& thread) {
    char text[256] = "can go on";
    switch (thread.wait) {
        case Wait::nothing:
            break;
        case Wait::warp: {
            std::uint32_t came = 0;
            for (const Warp::Meeting& meeting : thread.warp->meetings) {
                if (meeting.came != 0 && meeting.mask == thread.about) came = meeting.came;
            }
            std::snprintf(text, sizeof text, "waits for the lanes %08x of its warp", thread.about & ~came);
            break;
        }
        case Wait::block: {
            const Block::Barrier& barrier = thread.block->barriers[thread.about];
            std::snprintf(text, sizeof text, "waits at barrier %u of the block, where %u of %u threads are",
                          thread.about, barrier.came,
                          barrier.threads == 0 ? thread.block->alive : barrier.threads);
            break;
        }
        case Wait::cluster:
            std::snprintf(text, sizeof text, "waits at the cluster's barrier, where %u of %u threads are",
                          thread.block->cluster->came, thread.block->cluster->alive);
            break;
        case Wait::mbarrier: {
            MbarrierWord word;
            std::memcpy(&word, thread.block->memory + thread.about, sizeof word);
            std::snprintf(
                text, sizeof text,
                "waits at the mbarrier at offset %u for phase %u, which lacks %u arrivals and %d bytes",
                thread.about, thread.parity, unsigned(word.missing), int(word.bytes));
            break;
        }
        case Wait::poll:
            std::snprintf(text, sizeof text, "polls");
            break;
        case Wait::over:
            std::snprintf(text, sizeof text, "is over");
            break;
    }
    return text;
}

}  // namespace

void Launch::report(const char* headline) const {
    std::fprintf(stderr, "emulator: %s\n", headline);
    // Lanes, warps and blocks that wait for the same are told together.
    std::map<std::string, std::string> where;
    std::map<const void*, std::string> places;
    for (const auto& block : blocks_) {
        for (const Warp& warp : block->warps) {
            std::map<std::string, std::uint32_t> lanes_of;
            for (std::uint32_t lane = 0;
                 lane < lanes && warp.threads + lane < block->threads.data() + block->threads.size();
                 ++lane) {
                const Thread& thread = warp.threads[lane];
                if (thread.wait == Wait::over) continue;
                if (!places.contains(thread.place)) places[thread.place] = place_of(thread.place);
                lanes_of[describe(thread) + " at " + places[thread.place]] |= 1u << lane;
            }
            for (const auto& [what, mask] : lanes_of) {
                char text[64];
                std::snprintf(text, sizeof text, " %u.%u", block->number,
                              static_cast<unsigned>(&warp - block->warps.data()));
                char lanes_text[16];
                std::snprintf(lanes_text, sizeof lanes_text, "[%08x]", mask);
                std::string& to = where[what];
                if (to.size() < 160) to += std::string(text) + (mask == ~0u ? "" : lanes_text);
            }
        }
    }
    int lines = 0;
    for (const auto& [what, who] : where) {
        if (++lines > most_lines) break;
        std::fprintf(stderr, "  %s\n    block.warp[lanes]:%s\n", what.c_str(), who.c_str());
    }
    std::fprintf(stderr, "  %zu transfers and the stores of %zu blocks are pending\n", transfers_.size(),
                 writing_.size());
}

void fail(const char* what, ...) {
    char text[512];
    std::va_list arguments;
    va_start(arguments, what);
    std::vsnprintf(text, sizeof text, what, arguments);
    va_end(arguments);
    std::fprintf(stderr, "emulator: %s\n", text);
    current->give_up();
    if (running == nullptr) throw GaveUp();
    void* here = __builtin_return_address(0);
    std::fprintf(stderr, "  block %u thread %u at %s\n", running->block->number, running->index.x,
                 place_of(here).c_str());
    current->abandon();
}

}  // namespace emulator
