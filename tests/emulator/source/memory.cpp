#include "memory.hpp"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

namespace emulator {

namespace {

constexpr std::size_t page = 4096;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

struct Mapping {
    void* begin;
    std::size_t bytes;
};

// By what allocate_guarded returned.
std::map<const void*, Mapping>& allocated() {
    static std::map<const void*, Mapping> all;
    return all;
}

std::map<std::size_t, std::vector<std::unique_ptr<Stacks>>>& kept_stacks() {
    static std::map<std::size_t, std::vector<std::unique_ptr<Stacks>>> kept;
    return kept;
}

}  // namespace

void poison(void* memory, std::size_t bytes) {
    std::memset(memory, 0xff, bytes);
}

void* allocate_guarded(std::size_t bytes, std::size_t align) {
    const std::size_t inside = round_up(bytes == 0 ? 1 : bytes, align), pages = round_up(inside, page);
    void* memory = mmap(nullptr, page + pages + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    auto* first = static_cast<unsigned char*>(memory) + page;
    if (mprotect(first, pages, PROT_READ | PROT_WRITE) != 0) {
        munmap(memory, page + pages + page);
        return nullptr;
    }
    poison(first, pages);
    allocated()[first + pages - inside] = {memory, page + pages + page};
    return first + pages - inside;
}

void free_guarded(void* memory) {
    if (memory == nullptr) return;
    const auto at = allocated().find(memory);
    munmap(at->second.begin, at->second.bytes);
    allocated().erase(at);
}

std::unique_ptr<Stacks> take_stacks(std::size_t count) {
    auto& kept = kept_stacks()[count];
    if (kept.empty()) return std::make_unique<Stacks>(count);
    auto stacks = std::move(kept.back());
    kept.pop_back();
    return stacks;
}

void recycle_stacks(std::unique_ptr<Stacks> stacks, std::size_t count) {
    if (stacks != nullptr) kept_stacks()[count].push_back(std::move(stacks));
}

}  // namespace emulator
