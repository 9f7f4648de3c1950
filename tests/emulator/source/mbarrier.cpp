#include "emulator/mbarrier.hpp"

#include <algorithm>
#include <cstring>

#include "launch.hpp"
#include "mbarriers.hpp"
#include "memory.hpp"

namespace emulator {

namespace {

constexpr std::uint64_t initialized = 0xb5;
constexpr std::uint32_t rank_shift = 24, offset_mask = (1u << rank_shift) - 1;

Block& block_of(std::uint32_t address) {
    Cluster& cluster = *running->block->cluster;
    const std::uint32_t rank = address >> rank_shift;
    if (rank >= cluster.blocks.size())
        fail("address %08x is of a block that the cluster does not have", address);
    return *cluster.blocks[rank];
}

std::uint32_t offset_of(std::uint32_t address, std::uint32_t bytes) {
    const std::uint32_t offset = (address & offset_mask) - shared_base;
    if (offset > current->shape.bytes || current->shape.bytes - offset < bytes ||
        offset % (bytes % 16 == 0 ? 16 : bytes) != 0) {
        fail("%u bytes at address %08x of shared memory: outside, or not aligned", bytes, address);
    }
    return offset;
}

MbarrierWord load(const Block& block, std::uint32_t offset) {
    MbarrierWord word;
    std::memcpy(&word, block.memory + offset, sizeof word);
    if (word.mark != initialized) fail("block %u has no mbarrier at offset %u", block.number, offset);
    return word;
}

// Stores the word; wakes those who wait if its phase is complete.
void put(Block& block, std::uint32_t offset, MbarrierWord word) {
    const bool complete = word.missing == 0 && word.bytes == 0;
    if (complete) {
        word.phase ^= 1;
        word.missing = word.arrivals;
    }
    std::memcpy(block.memory + offset, &word, sizeof word);
    if (!complete) return;
    ++current->progress;
    auto& waiting = block.at_mbarriers;
    for (std::size_t i = 0; i < waiting.size();) {
        Thread* thread = waiting[i];
        if (thread->about != offset || thread->parity == word.phase) {
            ++i;
            continue;
        }
        waiting[i] = waiting.back();
        waiting.pop_back();
        current->wake(thread, true);
    }
}

}  // namespace

std::uint32_t shared_address(const void* p) {
    const Block& block = *running->block;
    const std::ptrdiff_t offset = static_cast<const unsigned char*>(p) - block.memory;
    if (offset < 0 || offset > static_cast<std::ptrdiff_t>(current->shape.bytes))
        fail("%p is not in shared memory", p);
    return block.rank << rank_shift | (static_cast<std::uint32_t>(offset) + shared_base);
}

std::uint32_t peer_address(std::uint32_t address, std::uint32_t rank) {
    if (rank >= running->block->cluster->blocks.size()) fail("the cluster has no block of rank %u", rank);
    return (address & offset_mask) | rank << rank_shift;
}

void* shared_pointer(std::uint32_t address, std::uint32_t bytes) {
    return block_of(address).memory + offset_of(address, bytes);
}

void mbarrier_init(std::uint32_t address, std::uint32_t arrivals) {
    MbarrierWord word = {};
    word.mark = initialized;
    word.arrivals = word.missing = arrivals & 0x7fff;
    std::memcpy(shared_pointer(address, 8), &word, sizeof word);
}

void mbarrier_arrive(std::uint32_t address, std::uint32_t expected_bytes) {
    Block& block = block_of(address);
    const std::uint32_t offset = offset_of(address, 8);
    MbarrierWord word = load(block, offset);
    if (word.missing == 0) fail("more arrivals than the mbarrier at offset %u has in a phase", offset);
    word.bytes += expected_bytes;
    --word.missing;
    put(block, offset, word);
    visible_step();
}

bool mbarrier_test(std::uint32_t address, std::uint32_t parity) {
    return load(block_of(address), offset_of(address, 8)).phase != parity;
}

bool mbarrier_wait(std::uint32_t address, std::uint32_t parity) {
    Block& block = block_of(address);
    const std::uint32_t offset = offset_of(address, 8);
    if (load(block, offset).phase != parity) return true;
    running->parity = parity;
    return current->stop(Wait::mbarrier, offset, __builtin_return_address(0));
}

void count_bytes(Block& block, std::uint32_t offset, std::uint32_t bytes) {
    MbarrierWord word = load(block, offset);
    word.bytes -= bytes;
    put(block, offset, word);
}

void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier) {
    if (bytes == 0 || bytes % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0) {
        fail("a bulk copy of %u bytes from %p", bytes, from);
    }
    Block& block = block_of(to);
    if (&block != &block_of(barrier)) fail("a bulk copy to %08x counts in another block: %08x", to, barrier);
    // Nobody may use what is there any more, nor what comes before it has been waited for.
    const std::uint32_t offset = offset_of(to, 16);
    offset_of(to + bytes - 16, 16);
    poison(block.memory + offset, bytes);
    current->add(Transfer{&block, offset, offset_of(barrier, 8), bytes, from, {}});
    visible_step();
}

void bulk_copy_to_peer(std::uint32_t to, std::uint32_t from, std::uint32_t bytes, std::uint32_t barrier) {
    if (&block_of(from) != running->block) fail("a bulk copy from another block: %08x", from);
    bulk_load(to, shared_pointer(from, 16), bytes, barrier);
}

void store_peer(std::uint32_t to, const void* value, std::uint32_t bytes, std::uint32_t barrier) {
    Block& block = block_of(to);
    if (&block != &block_of(barrier)) fail("a store to %08x counts in another block: %08x", to, barrier);
    Transfer transfer = {&block, offset_of(to, bytes), offset_of(barrier, 8), bytes, nullptr, {}};
    std::memcpy(transfer.value.data(), value, bytes);
    poison(block.memory + transfer.to, bytes);
    current->add(transfer);
    visible_step();
}

void store_later(std::uint32_t* to, std::uint32_t value) {
    current->add(*running->block, {to, value});
    visible_step();
}

void release_stores() {
    current->write_all(*running->block);
}

void own_stores_first(const void* p, std::uint32_t bytes) {
    Block& block = *running->block;
    if (!block.writes.empty()) current->write_those_to(block, p, bytes);
}

}  // namespace emulator
