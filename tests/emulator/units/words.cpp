// Shuffles and votes of a warp, and the order of stores to global memory.
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "pk/ptx/atomics.hpp"
#include "units.hpp"

namespace {

constexpr std::uint32_t all = ~0u;

// out [7][lanes].
void shuffle(std::uint32_t* out) {
    const std::uint32_t lane = threadIdx.x;
    const std::uint32_t results[] = {
        __shfl_sync(all, lane * 3, 5),
        __shfl_xor_sync(all, lane * 3, 8),
        __shfl_up_sync(all, lane * 3, 4),
        __shfl_down_sync(all, lane * 3, 4),
        __ballot_sync(all, lane % 3 == 0),
        static_cast<std::uint32_t>(__all_sync(all, lane < 32) + __any_sync(all, lane == 40) * 2),
        lane < 16 ? __shfl_xor_sync(0xffffu, lane, 1) : __shfl_xor_sync(0xffff0000u, lane, 2),
    };
    for (std::uint32_t i = 0; i < std::size(results); ++i) out[i * 32 + lane] = results[i];
}

// Half of the warp never comes.
void differ() {
    if (threadIdx.x < 16) {
        __syncwarp();
    } else {
        __ballot_sync(all, true);
    }
}

// words [3]: the last is the flag. seen: for each word of block 0 what block 1 sees after the flag, or
// before.
void publish(std::uint32_t* words, std::uint32_t* seen, bool releases) {
    if (blockIdx.x == 0) {
        pk::ptx::store_relaxed(words, 1u);
        pk::ptx::store_relaxed(words + 1, 2u);
        if (releases) {
            pk::ptx::store_release(words + 2, 1u);
        } else {
            pk::ptx::store_relaxed(words + 2, 1u);
        }
        return;
    }
    while (pk::ptx::load_acquire(words + 2) == 0) emulator::poll_pause();
    seen[0] = pk::ptx::load_relaxed(words);
    seen[1] = pk::ptx::load_relaxed(words + 1);
}

// A thread sees its own stores, in their order.
void overwrite(std::uint32_t* word, std::uint32_t* wrong) {
    for (std::uint32_t i = 1; i < 200; ++i) {
        pk::ptx::store_relaxed(word + threadIdx.x, i);
        if (i % 3 == 0 && pk::ptx::load_relaxed(word + threadIdx.x) != i) ++*wrong;
    }
}

}  // namespace

void units::test_shuffles() {
    std::vector<std::uint32_t> out(7 * 32);
    check(run(shuffle, 1, 1, 32, 1024, out.data()) == cudaSuccess, "shuffles run");
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
        const std::uint32_t up = lane < 4 ? lane : lane - 4, down = lane + 4 < 32 ? lane + 4 : lane;
        const std::uint32_t expected[] = {
            15, (lane ^ 8) * 3, up * 3, down * 3, 0x49249249, 1, lane < 16 ? lane ^ 1 : lane ^ 2};
        for (std::uint32_t i = 0; i < 7; ++i) check(out[i * 32 + lane] == expected[i], "a shuffle's value");
    }
    check(run(differ, 1, 1, 32, 1024) == cudaErrorLaunchFailure, "lanes at different instructions are told");
}

void units::test_stores() {
    bool reordered = false;
    for (int number = 0; number < 60; ++number) {
        seed(number);
        for (const bool releases : {true, false}) {
            std::vector<std::uint32_t> words(3), seen(2);
            check(run(publish, 2, 1, 1, 1024, words.data(), seen.data(), releases) == cudaSuccess,
                  "stores run");
            const bool in_order = seen[0] == 1 && seen[1] == 2;
            check(!releases || in_order, "a release comes after what was stored");
            reordered = reordered || !in_order;
            check(words[0] == 1 && words[1] == 2, "in the end all is stored");
        }
        std::vector<std::uint32_t> word(4), wrong(1);
        check(run(overwrite, 1, 1, 4, 1024, word.data(), wrong.data()) == cudaSuccess, "stores run");
        check(wrong[0] == 0 && word[0] == 199, "a thread sees its own stores");
    }
    check(reordered, "relaxed stores are seen in another order");
}
