// The eight primitives as a rank uses them, on the host and on a GPU: each step writes whole numbers, which
// all come out exactly, and the ranks find them at each other.
#pragma once

#include "pk/platform/atomic.hpp"
#include "pk/primitives/reduce.hpp"
#include "pk/primitives/store_async.hpp"
#include "pk/primitives/wait.hpp"
#include "pk/tile/bf16.hpp"
#if PK_CUDA
#include "pk/ptx/fence.hpp"
#endif

namespace testing {

using pk::Reduction;
using pk::memory::PeerTensor;
#if PK_CUDA
using Bf16 = pk::ptx::OfBf16;
#else
using Bf16 = pk::tile::bf16;
#endif

inline constexpr std::uint32_t tile_bytes = 2048, tile_elements = tile_bytes / 2,
                               tile_floats = tile_bytes / 4;

// A rank's memory; tiles.
struct Places {
    std::uint32_t world;
    PK_HOST_DEVICE std::uint64_t flags() const { return 0; }
    PK_HOST_DEVICE std::uint64_t tile(std::uint32_t number) const {
        return 1024 + std::uint64_t{number} * tile_bytes;
    }
    PK_HOST_DEVICE std::uint64_t given(std::uint32_t rank) const { return tile(rank); }         // [world]
    PK_HOST_DEVICE std::uint64_t sent(std::uint32_t rank) const { return tile(world + rank); }  // [world]
    PK_HOST_DEVICE std::uint64_t summed(std::uint32_t rank) const {
        return tile(2 * world + rank);
    }  // [world]
    PK_HOST_DEVICE std::uint64_t added(std::uint32_t how) const {
        return tile(3 * world + how);
    }  // add, min, max, floats
    PK_HOST_DEVICE std::uint64_t reduced() const { return tile(3 * world + 4); }
    PK_HOST_DEVICE std::uint64_t bytes() const { return tile(3 * world + 5); }
};

// A whole number from 1 to 8.
PK_HOST_DEVICE std::uint32_t number(std::uint32_t rank, std::uint32_t tile, std::uint32_t i) {
    return (rank * 7 + tile * 5 + i * 3 + i / 64) % 8 + 1;
}

PK_DEVICE std::uint16_t bits(std::uint32_t whole) {
    return pk::tile::to_bf16(static_cast<float>(whole)).bits;
}

struct RankOf {
    PeerTensor<char> memory;
    Places places;
    std::uint32_t thread, threads;
    char* buffer;  // a tile, in shared memory
    std::uint32_t epoch = 0, errors = 0;

    PK_DEVICE void sync() const {
#if PK_CUDA
        __syncthreads();
#endif
    }
    template <class Body>
    PK_DEVICE void each(std::uint32_t count, Body body) const {
        for (std::uint32_t i = thread; i < count; i += threads) body(i);
    }
    PK_DEVICE std::uint16_t* elements(std::uint64_t place) const {
        return reinterpret_cast<std::uint16_t*>(memory.mine() + place);
    }
    PK_DEVICE void expect(bool good) { errors += good ? 0 : 1; }

    PK_DEVICE void meet() {
        sync();
        ++epoch;
        PeerTensor<std::uint32_t> flags{memory.rank, memory.world, {}};
        for (std::uint32_t r = 0; r < memory.world; ++r) {
            flags.at[r] = reinterpret_cast<std::uint32_t*>(memory.at[r] + places.flags());
        }
        if (thread == 0) expect(pk::barrier(flags, epoch, 5'000'000'000u).reached);
        sync();
    }

    // The tile in the buffer to where `send(thread 0)` says.
    template <class Fill, class Send>
    PK_DEVICE void send(Fill fill, Send send) {
        fill();
#if PK_CUDA
        pk::ptx::fence_proxy_async();
#endif
        sync();
        if (thread == 0) {
            send();
            pk::store_async_commit();
            pk::store_async_wait_read<0>();
            pk::store_async_wait<0>();
        }
        sync();
    }

    PK_DEVICE void run() {
        const std::uint32_t me = memory.rank, world = memory.world;
        auto* halves = reinterpret_cast<std::uint16_t*>(buffer);
        auto* floats = reinterpret_cast<float*>(buffer);
        for (std::uint32_t t = 0; t < world; ++t) {
            each(tile_elements,
                 [&](std::uint32_t i) { elements(places.given(t))[i] = bits(number(me, t, i)); });
        }
        each(tile_elements, [&](std::uint32_t i) { elements(places.added(1))[i] = bits(100); });
        meet();

        // store_async: a tile of mine to everybody.
        const auto fill = [&] {
            each(tile_elements, [&](std::uint32_t i) { halves[i] = bits(number(me, 9, i)); });
        };
        send(fill, [&] {
            for (std::uint32_t r = 0; r < world; ++r) {
                pk::store_async(memory.at[r] + places.sent(me), buffer, tile_bytes);
            }
        });
        // store_add_async: to rank 0.
        send(fill, [&] {
            pk::store_add_async<Reduction::add, Bf16>(memory.at[0] + places.added(0), buffer, tile_bytes);
            pk::store_add_async<Reduction::min, Bf16>(memory.at[0] + places.added(1), buffer, tile_bytes);
            pk::store_add_async<Reduction::max, Bf16>(memory.at[0] + places.added(2), buffer, tile_bytes);
        });
        send(
            [&] {
                each(tile_floats, [&](std::uint32_t i) { floats[i] = static_cast<float>(number(me, 8, i)); });
            },
            [&] {
                pk::store_add_async<Reduction::add, float>(memory.at[0] + places.added(3), buffer,
                                                           tile_bytes);
            });
        // reduce: tile `me` of all, to myself; all_reduce: to everybody.
        pk::reduce<Bf16>(memory.mine() + places.reduced(), memory, places.given(me), tile_bytes, thread,
                         threads);
        PeerTensor<char> to = memory;
        for (std::uint32_t r = 0; r < world; ++r) to.at[r] += places.summed(0) - places.given(0);
        pk::all_reduce<Bf16>(to, memory, places.given(me), tile_bytes, thread, threads);
        meet();
        check();
    }

    PK_DEVICE void check() {
        const std::uint32_t world = memory.world;
        each(tile_elements, [&](std::uint32_t i) {
            std::uint32_t sum = 0, least = 100, most = 0, own = 0;
            for (std::uint32_t r = 0; r < world; ++r) {
                const std::uint32_t given = number(r, 9, i);
                expect(elements(places.sent(r))[i] == bits(given));
                sum += given;
                least = given < least ? given : least;
                most = given > most ? given : most;
                own += number(r, memory.rank, i);
            }
            expect(elements(places.reduced())[i] == bits(own));
            for (std::uint32_t t = 0; t < world; ++t) {
                std::uint32_t all = 0;
                for (std::uint32_t r = 0; r < world; ++r) all += number(r, t, i);
                expect(elements(places.summed(t))[i] == bits(all));
            }
            if (memory.rank != 0) return;
            expect(elements(places.added(0))[i] == bits(sum));
            expect(elements(places.added(1))[i] == bits(least));
            expect(elements(places.added(2))[i] == bits(most));
        });
        if (memory.rank != 0) return;
        each(tile_floats, [&](std::uint32_t i) {
            std::uint32_t sum = 0;
            for (std::uint32_t r = 0; r < world; ++r) sum += number(r, 8, i);
            expect(reinterpret_cast<const float*>(memory.mine() + places.added(3))[i] ==
                   static_cast<float>(sum));
        });
    }
};

}  // namespace testing
