// mbarriers, transfers that count on them, and the barriers of blocks and clusters.
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.hpp"
#include "pk/ptx/block_memory.hpp"
#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/cluster.hpp"
#include "pk/ptx/mbarrier.hpp"
#include "pk/ptx/named_barrier.hpp"
#include "units.hpp"

namespace {

constexpr std::uint32_t data = 1024;  // offset of what is sent

// Two arrivals and 32 bytes a phase. Thread 0 copies, thread 1 arrives without bytes; thread 2 waits.
// seen[phase]: the first word afterwards; early[phase]: what thread 0 finds at once.
void copy(const std::uint32_t* from, std::uint32_t* seen, std::uint32_t* early) {
    unsigned char* memory = pk::ptx::block_memory();
    auto* barrier = reinterpret_cast<std::uint64_t*>(memory);
    auto* to = reinterpret_cast<std::uint32_t*>(memory + data);
    if (threadIdx.x == 0) pk::ptx::mbarrier_init(barrier, 2);
    __syncthreads();
    for (std::uint32_t phase = 0; phase < 6; ++phase) {
        if (threadIdx.x == 0) {
            pk::ptx::mbarrier_arrive_expect_tx(barrier, 32);
            pk::ptx::bulk_load(to, from + phase * 8, 32, barrier);
            early[phase] = *static_cast<volatile std::uint32_t*>(to);
        } else if (threadIdx.x == 1) {
            pk::ptx::mbarrier_arrive(barrier);
        } else if (threadIdx.x == 2) {
            while (!pk::ptx::mbarrier_try_wait(barrier, phase % 2)) {
            }
            seen[phase] = to[7];
        }
        __syncthreads();
    }
}

// Every block of the cluster sends its number to all; a store may come before the bytes are expected.
// seen [blocks][cluster].
void exchange(std::uint32_t* seen) {
    unsigned char* memory = pk::ptx::block_memory();
    auto* barrier = reinterpret_cast<std::uint64_t*>(memory);
    const std::uint32_t base = pk::ptx::shared_address(memory), thread = threadIdx.x;
    if (thread == 0) pk::ptx::mbarrier_init(barrier, 1);
    pk::ptx::cluster_sync();
    for (std::uint32_t phase = 0; phase < 3; ++phase) {
        if (thread < 4) {
            const std::uint32_t peer = pk::ptx::peer_address(base, thread);
            pk::ptx::store_peer(peer + data + blockIdx.x % 4 * 4, blockIdx.x * 10 + phase, peer);
        }
        if (thread == 5) pk::ptx::mbarrier_arrive_expect_tx(barrier, 16);
        while (!pk::ptx::mbarrier_try_wait_cluster(base, phase % 2)) {
        }
        if (thread < 4) {
            const auto* came = reinterpret_cast<const std::uint32_t*>(memory + data);
            if (came[thread] == (blockIdx.x / 4 * 4 + thread) * 10 + phase) ++seen[blockIdx.x * 4 + thread];
        }
        pk::ptx::cluster_sync();
    }
}

void vote(std::uint32_t* votes) {
    if (threadIdx.x < 64) {
        for (std::uint32_t i = 0; i < 64; ++i) {
            if (pk::ptx::named_barrier_any<1, 64>(threadIdx.x == i)) ++votes[threadIdx.x];
            if (pk::ptx::named_barrier_any<1, 64>(false)) votes[threadIdx.x] += 100;
        }
    }
    __syncthreads();
}

void wait_for_nothing() {
    auto* barrier = reinterpret_cast<std::uint64_t*>(pk::ptx::block_memory());
    if (threadIdx.x == 0) pk::ptx::mbarrier_init(barrier, 2);
    __syncthreads();
    if (threadIdx.x == 0) pk::ptx::mbarrier_arrive(barrier);
    while (!pk::ptx::mbarrier_try_wait(barrier, 0)) {
    }
}

void write_past_the_end() {
    auto* barrier = reinterpret_cast<std::uint64_t*>(pk::ptx::block_memory());
    pk::ptx::mbarrier_init(barrier, 1);
    const std::uint32_t base = pk::ptx::shared_address(barrier);
    pk::ptx::store_peer(base + 2048, 1u, base);
}

}  // namespace

void units::test_copies() {
    std::vector<std::uint32_t> from(48);
    for (std::uint32_t i = 0; i < from.size(); ++i) from[i] = i;
    bool too_early = false;
    for (int number = 0; number < 20; ++number) {
        seed(number);
        std::vector<std::uint32_t> seen(6), early(6);
        check(run(copy, 1, 1, 64, 2048, from.data(), seen.data(), early.data()) == cudaSuccess,
              "a copy runs");
        for (std::uint32_t phase = 0; phase < 6; ++phase) {
            check(seen[phase] == phase * 8 + 7, "what was copied is there after the wait");
            too_early = too_early || early[phase] == 0xffffffffu;
            check(early[phase] == 0xffffffffu || early[phase] == phase * 8,
                  "before it is not what was there");
        }
    }
    check(too_early, "and mostly it is not there yet");
}

void units::test_exchange() {
    for (int number = 0; number < 20; ++number) {
        seed(number);
        std::vector<std::uint32_t> seen(32);
        check(run(exchange, 8, 4, 32, 2048, seen.data()) == cudaSuccess, "an exchange runs");
        for (const std::uint32_t count : seen) check(count == 3, "peers have what was sent to them");
    }
}

void units::test_votes() {
    std::vector<std::uint32_t> votes(64);
    check(run(vote, 1, 1, 96, 1024, votes.data()) == cudaSuccess, "votes run");
    for (const std::uint32_t count : votes) check(count == 64, "one vote is everybody's");
}

void units::test_what_cannot_go_on() {
    check(run(wait_for_nothing, 1, 1, 64, 1024) == cudaErrorLaunchFailure, "a wait for nothing ends");
    check(run(write_past_the_end, 1, 1, 1, 2048) == cudaErrorLaunchFailure, "a store past the end is told");
    check(cudaGetLastError() == cudaErrorLaunchFailure, "the error is kept");
}
