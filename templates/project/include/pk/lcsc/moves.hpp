// What a collective by itself is told: whose memory it reads and writes, and the parts of the ranks.
#pragma once

#include "pk/lcsc/call.hpp"

namespace pk::lcsc {

// gather: shards of rows to everybody. scatter: the sum of everybody's tensor, to each rank its rows.
// all_reduce: to each rank all of the sum. to_columns: shards of rows become shards of columns; to_rows:
// back.
enum class Collective : std::uint32_t { gather, scatter, all_reduce, to_columns, to_rows };

PK_HOST_DEVICE constexpr bool sums(Collective what) {
    return what == Collective::scatter || what == Collective::all_reduce;
}

// Pieces of 16 bytes, or rows of them, dealt to ranks: `each` to one after the other, what is left to the
// last that get any.
struct PieceShards {
    std::uint64_t all, each;

    PK_HOST_DEVICE std::uint64_t begin(std::uint32_t rank) const {
        return rank * each < all ? rank * each : all;
    }
    PK_HOST_DEVICE std::uint64_t count(std::uint32_t rank) const {
        const std::uint64_t left = all - begin(rank);
        return left < each ? left : each;
    }
};
PK_HOST_DEVICE constexpr PieceShards deal_pieces(std::uint64_t all, std::uint32_t world) {
    return {all, (all + world - 1) / world};
}

// Matrices are dense. The ranks do this between a begin and an end of all of them.
struct Moves : Call {
    const void* ins[max_ranks];  // this rank's input; where the ranks' are added up, everybody's
    void* outs[max_ranks];       // everybody's output; of a scatter this rank's
    PieceShards rows;            // of the whole tensor. An all-reduce deals pieces: its rows are of one
    std::uint64_t row_pieces;    // of 16 bytes
};

// An all-reduce in one shot: each block of threads sends its pieces of the summand to all ranks, and adds up
// what came. Of a call as many blocks take part as there are pieces for.
struct SmallSum : Call {
    const void* in;
    void* out;
    std::uint64_t pieces;
    std::uint32_t* epochs;      // of this rank: u32 [block], calls completed
    std::uint64_t block_flags;  // u32 [block][rank], in the workspace
    std::uint64_t block_cards;  // u32 [block][turn][rank]
    std::uint64_t places;       // [block][turn][rank][small_pieces], used in turns by the parity of the epoch

    PK_HOST_DEVICE std::uint64_t block_flag(std::uint32_t block, std::uint32_t source) const;
    PK_HOST_DEVICE std::uint64_t block_card(std::uint32_t block, std::uint32_t epoch,
                                            std::uint32_t source) const;
    PK_HOST_DEVICE std::uint64_t place(std::uint32_t block, std::uint32_t epoch, std::uint32_t source) const;
};
inline constexpr std::uint32_t small_pieces = 512;    // of a block
inline constexpr std::uint64_t small_most = 1 << 16;  // pieces: 1 MiB, above which two shots are faster

PK_HOST_DEVICE constexpr std::uint64_t small_blocks(std::uint64_t pieces) {
    return (pieces + small_pieces - 1) / small_pieces;
}

// Where a block has what `source` sent: bytes into a workspace. A card of the next call may come before that
// of this one has been read, so those have turns too.
PK_HOST_DEVICE std::uint64_t SmallSum::block_flag(std::uint32_t block, std::uint32_t source) const {
    return block_flags + (std::uint64_t{block} * world + source) * 4;
}
PK_HOST_DEVICE std::uint64_t SmallSum::block_card(std::uint32_t block, std::uint32_t epoch,
                                                  std::uint32_t source) const {
    return block_cards + ((std::uint64_t{block} * 2 + (epoch & 1)) * world + source) * 4;
}
PK_HOST_DEVICE std::uint64_t SmallSum::place(std::uint32_t block, std::uint32_t epoch,
                                             std::uint32_t source) const {
    const std::uint64_t turn = std::uint64_t{block} * 2 + (epoch & 1);
    return places + (turn * world + source) * small_pieces * 16;
}

}  // namespace pk::lcsc
