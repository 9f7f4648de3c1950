// The key and value rows of one sequence and one head in the paged cache.
#pragma once

#include "pk/tile/bf16.hpp"

namespace pk::memory {

// A page holds, for keys and then for values, `heads` blocks of `PageTokens` rows of `Channels` bf16.
template <std::uint32_t PageTokens, std::uint32_t Channels, std::uint32_t Heads>
struct PagedRows {
    tile::bf16* base;            // row 0 of this head's keys in page 0 of the layer
    const std::uint32_t* pages;  // the page of each PageTokens tokens of the sequence

    static constexpr std::uint64_t block = std::uint64_t{PageTokens} * Channels;
    static constexpr std::uint64_t page_stride = 2 * Heads * block;
    static constexpr std::uint64_t to_values = Heads * block;  // from a key row to the value row of the token

    PK_DEVICE PagedRows(void* cache, std::uint64_t layer, std::uint64_t layer_pages, std::uint32_t head,
                        const std::uint32_t* page_table)
        : base(static_cast<tile::bf16*>(cache) + layer * layer_pages * page_stride + head * block),
          pages(page_table) {}

    // Elements from `base` to the key row of a token.
    PK_DEVICE std::uint64_t offset(std::uint32_t token) const {
        return pages[token / PageTokens] * page_stride + std::uint64_t{token % PageTokens} * Channels;
    }
    PK_DEVICE tile::bf16* key(std::uint32_t token) const { return base + offset(token); }
    PK_DEVICE tile::bf16* value(std::uint32_t token) const { return key(token) + to_values; }
};

}  // namespace pk::memory
