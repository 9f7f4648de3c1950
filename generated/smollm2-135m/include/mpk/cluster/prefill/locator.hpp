// Where on the tape the weights of a product lie, looked up by row and column.
#pragma once

#include <vector>

#include "mpk/cluster/tape.hpp"

namespace mpk::cluster::prefill {

// A chunk of a tile. The same tile's next `left - 1` chunks follow at distances of `stride` bytes; the next
// `together - 1` tiles follow at once.
struct Place {
    std::uint64_t at;  // bytes from the start of the tape
    std::uint32_t stride, left, together;
    bool first;  // of the tiles of its band, that is of those that lie together
};

template <class D>
class Locator {
    using S = Shares<D>;

public:
    // Bytes from the start of the tape to a stream of a block: [layer][stream][member][cluster].
    static std::vector<std::uint64_t> table(std::uint32_t clusters, const FfnShare* ffn,
                                            const std::uint64_t* tape_begin) {
        const std::uint32_t blocks = clusters * members;
        std::vector<std::uint64_t> begin(std::size_t{D::layers} * layer_streams * blocks);
        for (std::uint32_t b = 0; b < blocks; ++b) {
            std::uint64_t at = tape_begin[b];
            for (std::uint32_t s = 0; s < D::layers * layer_streams; ++s) {
                begin[(std::size_t{s} * members + b % members) * clusters + b / members] = at;
                const std::uint32_t layer = s / layer_streams;
                const FfnShare share = ffn[layer * clusters + b / members];
                at += S::tiles(static_cast<Stream>(s % layer_streams), b, blocks, layer, share).bytes();
            }
        }
        return begin;
    }

    PK_HOST_DEVICE Locator(const std::uint64_t* begin, const FfnShare* ffn, std::uint32_t clusters)
        : begin_(begin), ffn_(ffn), clusters_(clusters) {}

    // Tiles are counted in the order of the matrix's rows; of QKV group by group, of gate_up with 8 columns
    // of the FFN a tile.
    PK_HOST_DEVICE Place find(Stream which, std::uint32_t layer, std::uint32_t t,
                              std::uint32_t column_chunk) const {
        std::uint32_t cluster = 0, member = 0, chunks = S::hidden_chunks, within = column_chunk;
        Part tiles = {};
        switch (which) {
            case Stream::qkv: {
                constexpr std::uint32_t count = S::qkv_rows / tile;
                cluster = t / count;
                t %= count;
                member = owner(count, t);
                tiles = part_of(count, members, member);
                break;
            }
            case Stream::gate_up: {
                const FfnShare share = share_of(layer, t / (chunk / 8), cluster);
                const std::uint32_t count = share.count * (chunk / 8u);
                t -= share.begin * (chunk / 8u);
                const std::uint32_t index = owner(count, t);
                tiles = part_of(count, members, index);
                member = (index + members - layer % members) % members;
                break;
            }
            case Stream::output:
                chunks = S::output_cols / chunk;
                cluster = column_chunk / chunks;
                within = column_chunk % chunks;
                member = t / (S::slice / tile);
                tiles = S::slice_tiles(member);
                break;
            default: {
                const FfnShare share = share_of(layer, column_chunk, cluster);
                chunks = share.count;
                within = column_chunk - share.begin;
                member = t / (S::slice / tile);
                tiles = S::slice_tiles(member);
            }
        }
        const std::uint32_t local = t - tiles.begin, before = local / band * band, index = local % band;
        const std::uint32_t rest = tiles.count() - before, width = rest < band ? rest : band;
        const std::uint32_t stream = layer * layer_streams + static_cast<std::uint32_t>(which);
        const std::uint64_t begin = begin_[(stream * members + member) * clusters_ + cluster];
        return {begin + std::uint64_t{before * chunks + within * width + index} * tile_bytes,
                width * tile_bytes, chunks - within, width - index, index == 0};
    }

private:
    // Which of the members' parts has the thing `index` of `count`.
    PK_HOST_DEVICE static std::uint32_t owner(std::uint32_t count, std::uint32_t index) {
        return ((index + 1) * members - 1) / count;
    }

    PK_HOST_DEVICE FfnShare share_of(std::uint32_t layer, std::uint32_t column_chunk,
                                     std::uint32_t& cluster) const {
        const FfnShare* shares = ffn_ + layer * clusters_;
        cluster = 0;
        while (column_chunk >= std::uint32_t{shares[cluster].begin} + shares[cluster].count) ++cluster;
        return shares[cluster];
    }

    const std::uint64_t* begin_;
    const FfnShare* ffn_;
    std::uint32_t clusters_;
};

}  // namespace mpk::cluster::prefill
