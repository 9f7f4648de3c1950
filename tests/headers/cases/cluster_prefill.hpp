// What the prefill kernel reads: the passes of a call, the parts of products, and where weights are found.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "mpk/cluster/prefill/keys.hpp"
#include "mpk/cluster/prefill/locator.hpp"
#include "mpk/cluster/prefill/memory.hpp"
#include "mpk/cluster/prefill/pass.hpp"
#include "support/decoders.hpp"
#include "support/suite.hpp"

namespace testing {

namespace detail {

namespace prefill = mpk::cluster::prefill;
using mpk::cluster::Part;

// All tokens of all sequences once, in their order, passes full but the last one.
inline void check_passes(Suite& suite) {
    const std::vector<std::vector<std::uint32_t>> calls = {
        {1}, {512}, {513}, {0, 5, 0, 600, 1}, {511, 1, 1}, {8191, 0, 3}, std::vector<std::uint32_t>(16, 100)};
    bool complete = true, full = true, found = true;
    for (const auto& lengths : calls) {
        std::vector<std::uint32_t> next(lengths.size(), 0);
        std::uint32_t total = 0, passes = 0;
        for (const std::uint32_t length : lengths) total += length;
        for (std::uint32_t first = 0; first < total; first += prefill::pass_rows, ++passes) {
            prefill::Pass pass;
            prefill::fill_pass(pass, std::uint32_t(lengths.size()), first,
                               [&](std::uint32_t s) { return lengths[s]; });
            full = full && pass.rows == std::min(total - first, prefill::pass_rows);
            std::uint32_t row = 0;
            for (std::uint32_t i = 0; i < pass.count; ++i) {
                const prefill::Segment& segment = pass.segments[i];
                complete = complete && segment.row == row && segment.count > 0 &&
                           segment.position == next[segment.sequence];
                next[segment.sequence] += segment.count;
                for (std::uint32_t r = 0; r < segment.count; ++r) {
                    found = found && pass.of(row + r).sequence == segment.sequence;
                }
                row += segment.count;
            }
            complete = complete && row == pass.rows;
        }
        complete = complete && next == lengths;
    }
    suite.check("passes have every token once, in order", complete);
    suite.check("all passes but the last are full", full);
    suite.check("a row's segment is found", found);
}

// Items of attention: every token with every KV head once, those with most keys first within a sequence.
template <class D>
void check_key_items(Suite& suite) {
    prefill::Pass pass;
    const std::uint32_t lengths[] = {3, 0, 100, 16, 200};
    prefill::fill_pass(pass, 5, 0, [&](std::uint32_t s) { return lengths[s]; });
    std::vector<int> seen(D::kv_heads * pass.rows, 0);
    bool inside = true, falling = true;
    std::uint32_t before = ~0u, sequence = ~0u;
    for (std::uint32_t i = 0; i < prefill::key_items<D>(pass); ++i) {
        const prefill::KeyItem<D> item(pass, i);
        inside = inside && item.count >= 1 && item.end() <= item.limit();
        falling = falling && (item.segment.sequence != sequence || item.first <= before);
        before = item.first;
        sequence = item.segment.sequence;
        for (std::uint32_t t = 0; t < item.count; ++t) {
            ++seen[item.group * pass.rows + item.segment.row + item.first + t];
        }
    }
    suite.check(D::name() + ": attention has every token and head once",
                inside && std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    suite.check(D::name() + ": tokens with more keys come first", falling);
}

// The items of a tile are all tiles of the weight, parts and rows once.
inline bool items_cover(const prefill::TileSize& size, const prefill::Product& product, std::uint32_t rows) {
    const std::uint32_t down = (product.tiles + size.tiles - 1) / size.tiles;
    const std::uint32_t across = (rows + size.tokens - 1) / size.tokens;
    std::vector<int> seen(down * product.parts * across, 0);
    bool good = size.items(product, rows) == seen.size();
    for (std::uint32_t i = 0; good && i < seen.size(); ++i) {
        const prefill::Item item(size, product, rows, i);
        const Part part = product.part(item.part);
        good = item.chunks.begin == part.begin && item.chunks.end == part.end &&
               part.count() % size.chunks == 0 && item.first_row + size.tokens <= prefill::pass_rows;
        const std::uint32_t row = item.first_tile / size.tiles * product.parts + item.part;
        ++seen[row * across + item.first_row / size.tokens];
    }
    return good && std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; });
}

template <class D>
void check_products(Suite& suite) {
    using mpk::cluster::Stream;
    bool parts = true, items = true;
    for (const Stream which : {Stream::qkv, Stream::output, Stream::gate_up, Stream::down}) {
        const prefill::Product product = prefill::product_of<D>(which);
        std::uint32_t next = 0;
        for (std::uint32_t p = 0; p < product.parts; ++p) {
            parts = parts && product.part(p).begin == next && product.part(p).count() > 0;
            next = product.part(p).end;
        }
        parts = parts && next >= product.chunks && next < product.chunks + prefill::part_chunks;
        for (const std::uint32_t rows : {1u, 64u, 65u, 128u, 129u, 512u}) {
            prefill::with_tile(rows, [&]<class T>(T) {
                constexpr prefill::TileSize size = T::size;
                items = items && items_cover(size, product, rows);
            });
        }
    }
    suite.check(D::name() + ": the parts of products are all columns", parts);
    suite.check(D::name() + ": the items of products are all of them", items);
}

// Against the order in which write_tape goes through the tape.
template <class D>
void check_locator(Suite& suite, std::uint32_t clusters) {
    using namespace mpk::cluster;
    using S = Shares<D>;
    const std::uint32_t blocks = clusters * members, streams = D::layers * layer_streams + 1;
    const std::vector<FfnShare> shares = S::ffn_shares(clusters);
    std::vector<std::uint64_t> begin(blocks + 1, 0);
    for (std::uint32_t b = 0; b < blocks; ++b) {
        begin[b + 1] = begin[b] + tape_bytes<D>(streams, b, blocks, shares.data());
    }
    const std::vector<std::uint64_t> table =
        prefill::Locator<D>::table(clusters, shares.data(), begin.data());
    const prefill::Locator<D> locator(table.data(), shares.data(), clusters);
    bool good = true;
    for (std::uint32_t layer = 0; layer < D::layers; layer += D::layers > 4 ? 3 : 1) {
        for (std::uint32_t b = 0; b < blocks; ++b) {
            const std::uint32_t cluster = b / members;
            const FfnShare share = shares[layer * clusters + cluster];
            for (std::uint32_t s = 0; s < layer_streams; ++s) {
                const Stream which = static_cast<Stream>(s);
                const Tiles stream = S::tiles(which, b, blocks, layer, share);
                const bool columns_shared = which == Stream::output || which == Stream::down;
                const std::uint32_t first_tile = which == Stream::qkv       ? cluster * (S::qkv_rows / tile)
                                                 : which == Stream::gate_up ? share.begin * 4u
                                                                            : 0;
                const std::uint32_t first_chunk = which == Stream::output ? cluster * stream.chunks
                                                  : which == Stream::down ? share.begin
                                                                          : 0;
                std::uint64_t at =
                    begin[b] + tape_bytes<D>(layer * layer_streams + s, b, blocks, shares.data());
                for (std::uint32_t t = stream.tiles.begin; t < stream.tiles.end; t += band) {
                    const std::uint32_t count = std::min(stream.tiles.end - t, band);
                    for (std::uint32_t c = 0; c < stream.chunks; ++c) {
                        for (std::uint32_t n = 0; n < count; ++n, at += tile_bytes) {
                            const prefill::Place place =
                                locator.find(which, layer, first_tile + t + n, first_chunk + c);
                            good = good && place.at == at && place.left == stream.chunks - c &&
                                   place.stride == count * tile_bytes && place.together == count - n &&
                                   place.first == (n == 0);
                        }
                    }
                }
                good = good && (columns_shared || stream.bytes() == 0 || stream.chunks == S::hidden_chunks);
            }
        }
    }
    suite.check(D::name() + " on " + std::to_string(clusters) + " clusters: every tile is found", good);
}

}  // namespace detail

inline void cluster_prefill_cases(Suite& suite) {
    detail::check_passes(suite);
    each_decoder([&]<class D>() {
        detail::check_key_items<D>(suite);
        detail::check_products<D>(suite);
        for (const std::uint32_t clusters : {8u, 13u, 16u}) {
            if (clusters <= mpk::cluster::Shares<D>::used_clusters(16))
                detail::check_locator<D>(suite, clusters);
        }
    });
}

}  // namespace testing
