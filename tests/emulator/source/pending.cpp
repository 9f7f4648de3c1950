// What has been asked for and is done some time later: transfers into shared memory, relaxed stores.
#include <algorithm>
#include <cstring>

#include "launch.hpp"
#include "mbarriers.hpp"

namespace emulator {

bool Launch::do_pending() {
    const auto transfers = static_cast<std::uint32_t>(transfers_.size());
    const auto writing = static_cast<std::uint32_t>(writing_.size());
    if (transfers + writing == 0) return false;
    ++progress;
    const std::uint32_t i = random.below(transfers + writing);
    if (i < transfers) {
        const Transfer done = transfers_[i];
        transfers_[i] = transfers_.back();
        transfers_.pop_back();
        std::memcpy(done.block->memory + done.to, done.from == nullptr ? done.value.data() : done.from,
                    done.bytes);
        count_bytes(*done.block, done.barrier, done.bytes);
    } else {
        Block& block = *writing_[i - transfers];
        write_one(block, random.below(static_cast<std::uint32_t>(block.writes.size())));
    }
    return true;
}

// Of those to the same word the oldest.
void Launch::write_one(Block& block, std::size_t i) {
    std::size_t first = 0;
    while (block.writes[first].to != block.writes[i].to) ++first;
    *block.writes[first].to = block.writes[first].value;
    block.writes.erase(block.writes.begin() + static_cast<std::ptrdiff_t>(first));
    if (block.writes.empty()) writing_.erase(std::find(writing_.begin(), writing_.end(), &block));
}

void Launch::add(Block& block, const Block::Write& write) {
    if (block.writes.empty()) writing_.push_back(&block);
    block.writes.push_back(write);
    if (block.writes.size() > Block::most_writes) write_one(block, random.below(Block::most_writes));
}

void Launch::write_all(Block& block) {
    if (block.writes.empty()) return;
    ++progress;
    for (const Block::Write& write : block.writes) *write.to = write.value;
    block.writes.clear();
    writing_.erase(std::find(writing_.begin(), writing_.end(), &block));
}

void Launch::write_those_to(Block& block, const void* p, std::uint32_t bytes) {
    const auto begin = reinterpret_cast<std::uintptr_t>(p);
    for (std::size_t i = 0; i < block.writes.size();) {
        if (reinterpret_cast<std::uintptr_t>(block.writes[i].to) - begin >= bytes) {
            ++i;
            continue;
        }
        write_one(block, i);
    }
}

}  // namespace emulator
