// How attention is cut into items: some tokens of a sequence and one KV head with its query heads.
#pragma once

#include "mpk/cluster/keys.hpp"
#include "mpk/cluster/prefill/pass.hpp"

namespace mpk::cluster::prefill {

// Tokens whose keys and values are read at a time: a warp has their scores in registers, beside its queries
// and its result.
template <class D>
inline constexpr std::uint32_t key_block = 4096 / D::head;

// A warp takes 16 tokens of one query head.
template <class D>
inline constexpr std::uint32_t item_tokens = 16 * (consumer_warps / Shares<D>::group_heads);

template <class D>
PK_HOST_DEVICE std::uint32_t key_items(const Pass& pass) {
    std::uint32_t items = 0;
    for (std::uint32_t s = 0; s < pass.count; ++s) {
        items += (pass.segments[s].count + item_tokens<D> - 1) / item_tokens<D>;
    }
    return items * D::kv_heads;
}

template <class D>
struct KeyItem {
    Segment segment;
    std::uint32_t group, first, count;  // tokens of the segment

    // The last tokens have the most keys: they come first.
    PK_HOST_DEVICE KeyItem(const Pass& pass, std::uint32_t index) {
        constexpr std::uint32_t tokens = item_tokens<D>;
        group = index % D::kv_heads;
        index /= D::kv_heads;
        std::uint32_t s = pass.count - 1, items = (pass.segments[s].count + tokens - 1) / tokens;
        while (index >= items) {
            index -= items;
            items = (pass.segments[--s].count + tokens - 1) / tokens;
        }
        segment = pass.segments[s];
        first = (items - 1 - index) * tokens;
        count = segment.count - first < tokens ? segment.count - first : tokens;
    }

    // Keys that there are in the cache, and those that the item's last token sees.
    PK_HOST_DEVICE std::uint32_t limit() const { return segment.position + segment.count; }
    PK_HOST_DEVICE std::uint32_t end() const { return segment.position + first + count; }
};

}  // namespace mpk::cluster::prefill
