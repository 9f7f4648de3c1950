// Shared memory of the cluster worker: what is in use at the same time lies apart.
#pragma once

#include <string>
#include <vector>

#include "mpk/cluster/layout.hpp"
#include "support/decoders.hpp"
#include "support/suite.hpp"

namespace testing {

namespace detail {

struct Region {
    const char* name;
    std::uint32_t begin, bytes;
};
using Regions = std::vector<Region>;

// The first two that share a byte, or the first that does not begin at 16 bytes; empty if there are none.
inline std::string conflict(const Regions& regions, std::uint32_t end) {
    for (std::size_t i = 0; i < regions.size(); ++i) {
        const Region& a = regions[i];
        if (a.begin % 16 != 0) return std::string(a.name) + " is not aligned";
        if (a.begin + a.bytes > end) return std::string(a.name) + " goes too far";
        for (std::size_t j = i + 1; j < regions.size(); ++j) {
            const Region& b = regions[j];
            if (a.begin < b.begin + b.bytes && b.begin < a.begin + a.bytes) {
                return std::string(a.name) + " and " + b.name + " overlap";
            }
        }
    }
    return "";
}

template <class D, std::uint32_t R>
void check_layout(Suite& suite) {
    using L = mpk::cluster::Layout<D, R>;
    using mpk::cluster::consumer_warps;
    using mpk::cluster::page_bytes;
    constexpr std::uint32_t members = 8, group_heads = D::heads / D::kv_heads, slice = D::hidden / members;
    constexpr std::uint32_t pieces = (slice + 127) / 128;
    // One partial result: channels, maximum, sum and a gap for each head.
    constexpr std::uint32_t partial = group_heads * (D::head + 4) * 4;
    const Region hidden = {"hidden", L::hidden, D::hidden * R * 2};
    const Region qkv = {"qkv", L::qkv, R * (group_heads + 2) * D::head * 4};
    const Region attended = {"attended", L::attended, R * group_heads * D::head * 2};
    const Region ffn = {"ffn", L::ffn, mpk::cluster::Shares<D>::most_ffn_chunks() * 32 * R * 2};
    // Two bands: 16 sums of each tile of a batch of one, else half of those of both its warps.
    const Region halves = {"halves", L::halves, 2 * (R == 1 ? 4 * 16 * 4 : 2 * 4 * 16 * R * 4 / 2)};
    const Region lanes = {"lanes", L::lanes, L::lane_slots * partial};
    const Regions always = {
        {"control", L::control, sizeof(mpk::cluster::Control)},
        {"patience", L::patience, consumer_warps * 32},
        {"tiles", L::tiles, (D::layers * 4 + 1) * 8},
        {"weights", L::weights, D::layers * 32},
        {"stretches", L::stretches, (R == 1 ? 8 : R * 16) * 16},
        {"residual", L::residual, (R == 1 ? pieces : (R * pieces + D::kv_heads - 1) / D::kv_heads) * 512},
        {"squares", L::squares, members * pieces * R * 4},
        {"scales", L::scales, R * 4},
        {"angles", L::angles, R * D::head / 2 * 8},
        {"head_norms", L::head_norms, 2 * D::head * 2},
        // 16 sums of f32 for each row of a warp, or 128 columns of bf16.
        {"stage", L::stage, consumer_warps * (R == 16 ? 8 * 64 : 256)},
        {"ring", L::ring, L::pages * page_bytes},
    };
    const auto together = [&](const char* phase, Regions regions) {
        regions.insert(regions.end(), always.begin(), always.end());
        const std::string found = conflict(regions, L::bytes);
        suite.check(D::name() + ", " + std::to_string(R) + " rows, " + phase, found.empty(), found);
    };
    Regions attention = {
        {"query", L::query, R * group_heads * D::head * 2},
        {"fresh", L::fresh, R * 2 * D::head * 2},
        lanes,
        {"partials", L::partials, members * partial},
        attended,
    };
    // Of a batch of one, the next activations may come while a member still folds; all get all spans.
    if (R == 1) attention.push_back(hidden);
    together("QKV", {hidden, qkv, halves});
    // A member without spans may still write its keys when the others send the next activations.
    together("the end of attention", {hidden, {"fresh", L::fresh, R * 2 * D::head * 2}, qkv, attended});
    together("attention", attention);
    Regions heads = {{"query", L::query, R * group_heads * D::head * 2}, qkv, attended};
    heads.push_back({"fresh", L::fresh, R * 2 * D::head * 2});
    together("heads", heads);
    together("output", {attended, hidden, halves});
    together("gate, up and down", {hidden, ffn, halves});
    together("logits", {hidden, halves});
    constexpr std::uint32_t most = 232448 - 1024;  // of a block on sm_90, less what the system takes
    const bool fits = L::pages == 0 ? L::bytes + page_bytes > most : L::bytes <= most;
    suite.check(D::name() + ", " + std::to_string(R) + " rows fit", fits && L::ring % 1024 == 0);
    // The products read 64 rows of every chunk, so up to three tiles past a page.
    const bool behind = L::ring + L::pages * page_bytes + 3 * 1024 <= L::bytes;
    suite.check(D::name() + ", " + std::to_string(R) + " rows: something lies behind the ring", behind);
}

// Pages hold as many chunks of all tiles of a band as there is room for, the same number for every warp.
template <std::uint32_t R>
void check_page_chunks(Suite& suite) {
    using L = mpk::cluster::Layout<Llama1B, R>;
    bool good = true;
    for (std::uint32_t tiles = 1; tiles <= mpk::cluster::band; ++tiles) {
        const std::uint32_t chunks = L::page_chunks(tiles), parts = 8;
        good = good && chunks > 0 && chunks % parts == 0 && chunks * tiles * 1024 <= mpk::cluster::page_bytes;
        good = good && (chunks + parts) * tiles * 1024 > mpk::cluster::page_bytes;
    }
    suite.check("chunks of a page, " + std::to_string(R) + " rows", good);
}

// Two pages are the least that the ring works with.
template <class D, std::uint32_t R>
void check_runs(Suite& suite) {
    suite.check(D::name() + " runs with " + std::to_string(R) + " rows",
                mpk::cluster::Layout<D, R>::pages >= 2);
}

}  // namespace detail

inline void cluster_layout_cases(Suite& suite) {
    each_decoder([&]<class D>() {
        detail::check_layout<D, 1>(suite);
        detail::check_layout<D, 8>(suite);
        detail::check_layout<D, 16>(suite);
    });
    detail::check_page_chunks<1>(suite);
    detail::check_page_chunks<16>(suite);
    detail::check_runs<TinyDecoder, 16>(suite);
    detail::check_runs<Llama1B, 16>(suite);
    detail::check_runs<Qwen06B, 16>(suite);
    detail::check_runs<Qwen17B, 16>(suite);
    detail::check_runs<Qwen8B, 8>(suite);
}

}  // namespace testing
