// Rendezvous of a warp, barriers of blocks and clusters, and what a poll does.
#include <bit>

#include "emulator/mbarrier.hpp"
#include "emulator/thread.hpp"
#include "launch.hpp"
#include "mbarriers.hpp"

namespace emulator {

namespace {

void finish_meeting(Warp& warp, Warp::Meeting& meeting) {
    const std::uint32_t came = meeting.came;
    const Act act = meeting.act;
    meeting = {};
    act(warp.operands.data(), came);
    for (std::uint32_t left = came; left != 0; left &= left - 1) {
        warp.threads[std::countr_zero(left)].wait = Wait::nothing;
    }
    warp.runnable |= came;
}

void finish_barrier(Block& block, std::uint32_t number) {
    const bool vote = block.barriers[number].vote;
    block.barriers[number] = {};
    ++current->progress;
    for (Thread& thread : block.threads) {
        if (thread.wait != Wait::block || thread.about != number) continue;
        thread.vote = vote;
        current->wake(&thread, true);
    }
}

void finish_cluster(Cluster& cluster) {
    cluster.came = 0;
    ++current->progress;
    for (Block* block : cluster.blocks) {
        for (Thread& thread : block->threads) {
            if (thread.wait == Wait::cluster) current->wake(&thread, true);
        }
    }
}

}  // namespace

void together(std::uint32_t mask, Act act, void* mine) {
    Thread* self = running;
    Warp& warp = *self->warp;
    const std::uint32_t bit = 1u << self->lane;
    if ((mask & bit) == 0) fail("lane %u is not in its mask %08x", self->lane, mask);
    Warp::Meeting* meeting = nullptr;
    for (Warp::Meeting& one : warp.meetings) {
        if (one.came != 0 && one.mask == mask) meeting = &one;
        if (one.came != 0 && one.mask != mask && (one.mask & mask) != 0 && (one.came & mask) != 0) {
            fail("lanes of a warp meet with masks %08x and %08x", one.mask, mask);
        }
    }
    for (Warp::Meeting& one : warp.meetings) {
        if (meeting == nullptr && one.came == 0) meeting = &one;
    }
    if (meeting == nullptr) fail("too many groups of lanes meet");
    if (meeting->came == 0) *meeting = {mask, 0, act};
    if (meeting->act != act)
        fail("lanes of a warp are at different instructions (%08x came to the other)", meeting->came);
    warp.operands[self->lane] = mine;
    meeting->came |= bit;
    if (meeting->came == (mask & warp.alive)) {
        finish_meeting(warp, *meeting);
    } else {
        current->stop(Wait::warp, mask, __builtin_return_address(0));
    }
}

bool block_barrier(std::uint32_t number, std::uint32_t threads, bool vote) {
    Thread* self = running;
    Block& block = *self->block;
    Block::Barrier& barrier = block.barriers[number];
    if (barrier.came != 0 && barrier.threads != threads)
        fail("barrier %u for %u and for %u threads", number, barrier.threads, threads);
    barrier.threads = threads;
    barrier.vote = barrier.vote || vote;
    ++barrier.came;
    if (barrier.came == (threads == 0 ? block.alive : threads)) {
        self->vote = barrier.vote;
        finish_barrier(block, number);
        visible_step();
        return self->vote;
    }
    current->stop(Wait::block, number, __builtin_return_address(0));
    return self->vote;
}

void cluster_barrier() {
    Cluster& cluster = *running->block->cluster;
    current->write_all(*running->block);
    if (++cluster.came == cluster.alive) return finish_cluster(cluster);
    current->stop(Wait::cluster, 0, __builtin_return_address(0));
}

void left(const Thread& thread) {
    Warp& warp = *thread.warp;
    for (Warp::Meeting& meeting : warp.meetings) {
        if (meeting.came != 0 && meeting.came == (meeting.mask & warp.alive)) finish_meeting(warp, meeting);
    }
    Block& block = *thread.block;
    Block::Barrier& all = block.barriers[0];
    if (all.came != 0 && all.threads == 0 && all.came == block.alive) finish_barrier(block, 0);
    Cluster& cluster = *block.cluster;
    if (cluster.came != 0 && cluster.came == cluster.alive) finish_cluster(cluster);
}

void poll_pause() {
    running->loads = 0;
    current->stop(Wait::poll, 0, __builtin_return_address(0));
}

void polled_load() {
    if (++running->loads > 64) poll_pause();
}

void visible_step() {
    running->loads = 0;
    ++current->progress;
    if (current->random.chance(12)) current->step_aside();
}

}  // namespace emulator
