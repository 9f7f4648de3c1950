// Which pages of the KV cache each sequence of a call gets.
#pragma once

#include <cstdint>
#include <span>

#include "mpk/descriptors.hpp"
#include "mpk/engine/error.hpp"
#include "mpk/machine.hpp"

namespace mpk::engine {

inline constexpr std::uint32_t no_page = ~std::uint32_t{0};

inline std::uint32_t pages_per_sequence(const Plan& plan) {
    return (plan.context + plan.kv_page - 1) / plan.kv_page;
}

// Pages that hold `kv_tokens` tokens; 0 stands for every sequence at full length.
inline std::uint64_t page_count(const Plan& plan, std::uint64_t kv_tokens) {
    const std::uint64_t full = std::uint64_t{plan.batch} * pages_per_sequence(plan);
    if (kv_tokens == 0) return full;
    const std::uint64_t pages = kv_tokens / plan.kv_page + (kv_tokens % plan.kv_page != 0 ? 1 : 0);
    return pages < full ? pages : full;
}

// The last token that a sequence generates is never put in the cache.
inline std::uint32_t cached_tokens(const Sequence& sequence) {
    return sequence.prompt_length + sequence.max_new_tokens - 1;
}

inline std::uint32_t pages_needed(const Plan& plan, const Sequence& sequence) {
    return (cached_tokens(sequence) + plan.kv_page - 1) / plan.kv_page;
}

// Whether a cache of `pages` holds the sequences.
inline void check_pages(const Plan& plan, std::span<const Sequence> sequences, std::uint64_t pages) {
    std::uint64_t total = 0;
    for (const Sequence& sequence : sequences) total += pages_needed(plan, sequence);
    if (total > pages) {
        fail(Status::invalid_argument, "the sequences (prompt_length + max_new_tokens - 1 tokens each) need ",
             total, " pages of ", plan.kv_page, " tokens, but the KV cache of this model has ", pages,
             "; create it with a larger kv_tokens or ask for less");
    }
}

// Fill the page table [batch][pages_per_sequence] for sequences that fit. Pages are dealt one to each
// sequence in turn, so that a sequence's pages are not neighbours: code that ignores the table gives wrong
// results at once.
inline void deal_pages(const Plan& plan, std::span<const Sequence> sequences, std::uint32_t* table) {
    const std::uint32_t per_sequence = pages_per_sequence(plan);
    std::uint32_t next = 0;
    for (std::uint32_t page = 0; page < per_sequence; ++page) {
        for (std::uint32_t s = 0; s < plan.batch; ++s) {
            const bool used = s < sequences.size() && page < pages_needed(plan, sequences[s]);
            table[std::size_t{s} * per_sequence + page] = used ? next++ : no_page;
        }
    }
}

}  // namespace mpk::engine
