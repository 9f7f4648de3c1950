// How the cluster worker divides a decoder's weights: each is streamed by exactly one block.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "mpk/cluster/tape.hpp"
#include "support/decoders.hpp"
#include "support/suite.hpp"

namespace testing {

namespace detail {

using mpk::cluster::FfnShare;
using mpk::cluster::members;
using mpk::cluster::Shares;
using mpk::cluster::Stream;
using mpk::cluster::Tiles;

// Marks a block's tiles; `good()` if in the end each of them is marked once.
class Cover {
public:
    explicit Cover(std::size_t count) : marks_(count, 0) {}
    void add(const Tiles& tiles, std::size_t first = 0) {
        for (std::size_t t = tiles.tiles.begin; t < tiles.tiles.end; ++t) {
            if (first + t < marks_.size()) {
                ++marks_[first + t];
            } else {
                outside_ = true;
            }
        }
    }
    bool good() const {
        return !outside_ && std::all_of(marks_.begin(), marks_.end(), [](int n) { return n == 1; });
    }

private:
    std::vector<int> marks_;
    bool outside_ = false;
};

template <class D>
void check_ffn_shares(Suite& suite, std::uint32_t clusters, const std::string& name) {
    const std::vector<FfnShare> shares = Shares<D>::ffn_shares(clusters);
    bool whole = shares.size() == D::layers * clusters, fits = true, each_member = true;
    std::vector<std::uint64_t> total(clusters, 0);
    for (std::uint32_t layer = 0; layer < D::layers; ++layer) {
        std::uint32_t end = 0;
        for (std::uint32_t c = 0; c < clusters; ++c) {
            const FfnShare share = shares[layer * clusters + c];
            whole = whole && share.begin == end;
            fits = fits && share.count <= Shares<D>::most_ffn_chunks();
            for (std::uint32_t b = c * members; b < (c + 1) * members; ++b) {
                const Tiles one = Shares<D>::tiles(Stream::gate_up, b, clusters * members, layer, share);
                each_member = each_member && one.tiles.count() > 0;
            }
            end += share.count;
            total[c] += share.count;
        }
        whole = whole && end == D::ffn / 32;
    }
    // |total * clusters - all chunks| <= clusters
    const std::uint64_t all = std::uint64_t{D::layers} * (D::ffn / 32);
    bool equal = true;
    for (const std::uint64_t one : total) {
        equal = equal && one * clusters <= all + clusters && all <= one * clusters + clusters;
    }
    suite.check(name + ": FFN shares follow each other and are the whole FFN", whole);
    suite.check(name + ": FFN shares fit their buffer", fits);
    suite.check(name + ": each block has a tile of the FFN in each layer", each_member);
    suite.check(name + ": over the layers all clusters have the same share", equal);
}

template <class D>
void check_tiles(Suite& suite, std::uint32_t clusters, const std::string& name) {
    using S = Shares<D>;
    const std::uint32_t blocks = clusters * members;
    const std::vector<FfnShare> shares = S::ffn_shares(clusters);
    const auto tiles = [&](Stream stream, std::uint32_t block, std::uint32_t layer) {
        const FfnShare ffn = layer < D::layers ? shares[layer * clusters + block / members] : FfnShare{};
        return S::tiles(stream, block, blocks, layer, ffn);
    };
    bool groups = true, ffn = true, nothing_else = true;
    for (std::uint32_t layer = 0; layer < D::layers; ++layer) {
        constexpr std::uint32_t qkv_tiles = (D::heads + 2 * D::kv_heads) * D::head / D::kv_heads / 16;
        // [group][tile of its rows]; output: [group][tile of the hidden columns], each the group's columns
        // wide
        Cover qkv(D::kv_heads * qkv_tiles), output(D::kv_heads * D::hidden / 16);
        // 8 gate rows and 8 up rows a tile; down: [cluster][tile], each the cluster's FFN columns wide
        Cover gate_up(D::ffn / 8), down(clusters * D::hidden / 16);
        for (std::uint32_t b = 0; b < blocks; ++b) {
            const std::uint32_t cluster = b / members;
            const FfnShare share = shares[layer * clusters + cluster];
            const Tiles q = tiles(Stream::qkv, b, layer), o = tiles(Stream::output, b, layer);
            const Tiles g = tiles(Stream::gate_up, b, layer), d = tiles(Stream::down, b, layer);
            if (cluster < D::kv_heads) {
                qkv.add(q, cluster * qkv_tiles);
                output.add(o, cluster * (D::hidden / 16));
                groups = groups && q.chunks == D::hidden / 32;
                groups = groups && o.chunks * 32 * D::kv_heads == D::heads * D::head;
            } else {
                nothing_else = nothing_else && q.bytes() == 0 && o.bytes() == 0;
            }
            gate_up.add(g, share.begin * 4);
            down.add(d, cluster * (D::hidden / 16));
            ffn = ffn && g.chunks == D::hidden / 32 && d.chunks == share.count;
        }
        groups = groups && qkv.good() && output.good();
        ffn = ffn && gate_up.good() && down.good();
    }
    Cover logits(D::vocab / 16);
    std::uint32_t least = ~0u, most = 0;
    for (std::uint32_t b = 0; b < blocks; ++b) {
        const Tiles one = tiles(Stream::logits, b, D::layers);
        logits.add(one);
        nothing_else = nothing_else && one.chunks == D::hidden / 32;
        least = std::min(least, one.tiles.count());
        most = std::max(most, one.tiles.count());
    }
    suite.check(name + ": each tile of QKV and output has one block of its group", groups);
    suite.check(name + ": each tile of gate, up and down has one block", ffn);
    suite.check(name + ": each tile of the logits has one block, as many as any other",
                logits.good() && most - least <= 1);
    suite.check(name + ": clusters without a KV head have no part of the attention", nothing_else);
}

template <class D>
void check_tape(Suite& suite, std::uint32_t clusters, const std::string& name) {
    const std::uint32_t blocks = clusters * members, streams = D::layers * mpk::cluster::layer_streams + 1;
    const std::vector<FfnShare> shares = Shares<D>::ffn_shares(clusters);
    std::uint64_t total = 0;
    bool grows = true;
    for (std::uint32_t b = 0; b < blocks; ++b) {
        total += mpk::cluster::tape_bytes<D>(streams, b, blocks, shares.data());
        const std::uint64_t before = mpk::cluster::tape_bytes<D>(streams - 1, b, blocks, shares.data());
        const std::uint64_t logits =
            Shares<D>::tiles(Stream::logits, b, blocks, D::layers, FfnShare{}).bytes();
        grows = grows && before + logits == mpk::cluster::tape_bytes<D>(streams, b, blocks, shares.data());
    }
    suite.check(name + ": the tapes hold as many bytes as all weights", total == D::weight_bytes);
    suite.check(name + ": the logits are the end of a tape", grows);
}

inline void check_used_clusters(Suite& suite) {
    // With 8 groups: all that fit, if there is one for each.
    constexpr std::uint32_t expected[] = {0,  0,  0,  0,  0,  0,  0,  0,  8,  9, 10,
                                          11, 12, 13, 14, 15, 16, 16, 16, 16, 16};
    bool good = true;
    for (std::uint32_t fit = 0; fit <= 20; ++fit) {
        good = good && Shares<Llama1B>::used_clusters(fit) == expected[fit];
    }
    suite.check("used clusters", good);
}

// An FFN of so few columns that it limits the clusters.
template <std::uint32_t Ffn>
struct SmallFfn : Llama1B {
    static constexpr std::uint32_t ffn = Ffn;
};

template <std::uint32_t Ffn>
void check_small_ffn(Suite& suite) {
    using S = Shares<SmallFfn<Ffn>>;
    const std::string name = "FFN of " + std::to_string(Ffn) + " columns";
    suite.check(name + ": used clusters", S::used_clusters(16) == (Ffn < 512 ? 0 : std::min(Ffn / 64, 16u)));
    for (std::uint32_t clusters = S::groups; clusters <= S::used_clusters(16); ++clusters) {
        check_ffn_shares<SmallFfn<Ffn>>(suite, clusters,
                                        name + ", " + std::to_string(clusters) + " clusters");
    }
}

// Of every row and column two bytes of their own: in its piece, of column 8 i + 2 p + e, at word i of piece
// p.
inline void check_activations(Suite& suite, std::uint32_t rows) {
    using mpk::cluster::pair_offset;
    constexpr std::uint32_t columns = 96;
    std::vector<int> seen(columns * rows * 2, 0);
    bool placed = true, pieces = true;
    for (std::uint32_t column = 0; column < columns; column += 2) {
        const std::uint32_t chunk = column / 32, i = column % 32 / 8, p = column % 8 / 2;
        for (std::uint32_t row = 0; row < rows; ++row) {
            const std::uint32_t at = pair_offset(rows, column, row);
            placed = placed && at == ((chunk * 4 + p) * rows + row) * 16 + i * 4;
            for (std::uint32_t b = 0; b < 4; ++b) ++seen[at + b];
        }
    }
    for (std::uint32_t t = 0; t < columns / 8; ++t) {
        for (std::uint32_t index = 0; index < 8; ++index) {
            const std::uint32_t column = mpk::cluster::ffn_column(t, index);
            const std::uint32_t at = pair_offset(rows, column, 0) + column % 2 * 2;
            pieces = pieces && at == t * rows * 16 + index * 2;
        }
    }
    const std::string name = "activations of " + std::to_string(rows) + " rows";
    suite.check(name, placed && std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    suite.check(name + ": a tile of the FFN is a piece", pieces);
}

}  // namespace detail

inline void cluster_shares_cases(Suite& suite) {
    for (const std::uint32_t rows : {1, 8, 16}) detail::check_activations(suite, rows);
    detail::check_used_clusters(suite);
    detail::check_small_ffn<480>(suite);
    detail::check_small_ffn<512>(suite);
    detail::check_small_ffn<608>(suite);
    detail::check_small_ffn<1024>(suite);
    detail::check_small_ffn<1056>(suite);
    detail::check_small_ffn<1504>(suite);
    each_decoder([&]<class D>() {
        for (std::uint32_t clusters = 8; clusters <= detail::Shares<D>::used_clusters(16); ++clusters) {
            const std::string name = D::name() + " on " + std::to_string(clusters) + " clusters";
            detail::check_ffn_shares<D>(suite, clusters, name);
            detail::check_tiles<D>(suite, clusters, name);
            detail::check_tape<D>(suite, clusters, name);
        }
    });
}

}  // namespace testing
