// The shared memory of a block, and its warps.
#pragma once

#include "pk/lcsc/arguments.hpp"
#include "pk/ptx/mbarrier.hpp"

namespace pk::lcsc {

inline constexpr std::uint32_t consumer_groups = 2, consumer_threads = consumer_groups * 128;
// The last warpgroup: a loader, and the communicator's pushers.
inline constexpr std::uint32_t block_size = consumer_threads + 128;
// Blocks of a cluster: each loads its own rows and its part of the weight's, which all of them get.
inline constexpr std::uint32_t members = 2;

enum class Reduce : std::uint32_t { none, scatter, all };

// C: what is compiled in: Type (of wgmma_tile.hpp); Partial, of which summands are sent (float, or 16 bits
// for elements of Type); tile_m, tile_n, tile_k; stages; group (TileGrid); gather; copies_from (copies.hpp);
// by_tma (mover.hpp); comm_sms (schedule.hpp); keep_rows, whether the caller gets the gathered rows; reduce;
// bias, residual, silu_mul.
template <class C>
struct Layout {
    static constexpr std::uint32_t tile_m = C::tile_m, tile_n = C::tile_n, tile_k = C::tile_k;
    static_assert(tile_m == 128 && (tile_n == 128 || tile_n == 256) && tile_k == 64);
    static constexpr std::uint32_t sums = tile_n / 2;  // of a tile in each consumer's registers
    // Boxes of operands in a stage; their rows are 128 bytes.
    static constexpr std::uint32_t rows_bytes = tile_m * tile_k * 2, part_rows = tile_n / members;
    static constexpr std::uint32_t part_bytes = part_rows * tile_k * 2,
                                   stage_bytes = rows_bytes + members * part_bytes;
    static constexpr std::uint32_t ring_bytes = C::stages * stage_bytes;
    PK_HOST_DEVICE static constexpr TileGrid grid() { return {tile_m, tile_n, members, C::group}; }

    // Tiles that wait to be pushed, in global memory.
    static constexpr std::uint32_t staging_slots = 4;
    static constexpr std::uint32_t staged_bytes = tile_m * tile_n * sizeof(typename C::Partial);
    // The sums of a part of a tile (deal.hpp).
    static constexpr std::uint32_t sums_bytes = tile_m * tile_n * sizeof(float);

    // What pushers move by bulk copies passes through shared memory, behind the ring; where all warps of a
    // block are pushers, it has no ring.
    static constexpr std::uint32_t movers = C::comm_sms != 0 ? block_size / 32 : pushers;
    static constexpr std::uint32_t mover_buffers = C::by_tma ? 2 : 0, mover_buffer_bytes = 4096;
    static constexpr std::uint32_t mover_at = C::comm_sms != 0 ? 0 : ring_bytes,
                                   mover_bytes = mover_buffers * mover_buffer_bytes;

    struct Barriers {
        std::uint64_t full[C::stages], empty[C::stages];
        std::uint64_t staged_full[staging_slots], staged_free[staging_slots];
        std::uint64_t moved[C::by_tma ? movers * mover_buffers : 1];
    };
    // Of the block's shared memory, which begins at a multiple of 1024.
    PK_DEVICE static Barriers& barriers(unsigned char* memory) {
        return *reinterpret_cast<Barriers*>(memory + barriers_at);
    }
    static_assert(mover_at != 0 || movers * mover_bytes <= ring_bytes);
    static constexpr std::uint32_t barriers_at = mover_at == 0 ? ring_bytes : mover_at + movers * mover_bytes;
    static constexpr std::uint32_t bytes =
        barriers_at + sizeof(Barriers) + 1024;  // to begin at a multiple of 1024
    static_assert(bytes <= 227 * 1024, "more shared memory than a block can have");
};

// Whether what a call does goes by its peers.
template <class C>
inline constexpr bool over_ranks = C::gather || C::reduce != Reduce::none;

// A place that goes round, and the parity of its lap.
template <std::uint32_t Size>
struct RingPlace {
    std::uint32_t index = 0, parity = 0;

    PK_DEVICE void advance() {
        if (++index == Size) {
            index = 0;
            parity ^= 1;
        }
    }
};

}  // namespace pk::lcsc
