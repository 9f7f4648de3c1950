// Shared memory of a block: what is exchanged inside the cluster, what a step needs, and the ring of pages.
#pragma once

#include <algorithm>

#include "mpk/cluster/keys.hpp"
#include "mpk/cluster/setup.hpp"
#include "mpk/cluster/shares.hpp"
#include "mpk/machine.hpp"

namespace mpk::cluster {

inline constexpr std::uint32_t consumers = consumer_warps * 32;
inline constexpr std::uint32_t block_size = consumers + 128;  // and a warpgroup of which two warps load
inline constexpr std::uint32_t most_pages = 8;
inline constexpr std::uint32_t most_rows = 16;

// Barriers that peers complete, by what they bring.
enum class Exchange : std::uint32_t { hidden, qkv, attention, ffn, partial };

// The step as a block sees it, copied when the step begins.
struct StepBoard {
    std::uint32_t rows;      // 0: the call is over, or goes on in a kernel for fewer rows
    std::uint32_t samplers;  // sequences that sample
    std::uint32_t drawing;   // bit r: for row r a token is drawn, not just the best one taken
    std::uint32_t chunked;   // some rows are neighbours in one sequence
    std::uint32_t sequence[most_rows], position[most_rows];
    std::uint32_t page[most_rows];   // of the cache, for the row's own key and value
    RowShare share[most_rows];       // what this block's member has of the row's attention
    std::uint32_t stretches;         // how many of them are in Layout::stretches
    std::uint32_t first[most_rows];  // position of the first row of the same sequence
    std::int32_t token[most_rows];
    std::int32_t sampler[most_rows];  // sequence that samples from the row, -1 for none
    std::int32_t given[most_rows];    // the token that follows in the prompt, -1 after it
};

// Of each page of the ring, a bit: whether somebody has asked for something to come to it, and whether an odd
// number of times.
struct AskedFor {
    std::uint32_t pages, odd;
};

struct Control {
    std::uint64_t full[most_pages], empty[most_pages];
    std::uint64_t exchange[5];
    std::uint64_t keys_begin, keys_end;  // of a layer, between the two warps that load
    std::uint32_t number;                // of the step in the call
    std::uint32_t turns;                 // layers of all steps before in this kernel
    std::uint32_t started;  // streams that the consumers have begun, for a loader that does not run ahead
    std::uint32_t leaving;  // set when the consumers have left
    std::uint32_t summed;   // layers whose first sums have come, where a block without a group waits for them
    std::uint32_t drawn;    // tokens drawn so far in the call, as the last block counts them
    std::uint32_t ready;    // steps of the call whose board is complete, released for the loader
    // What the loader's first warp tells the second, who helps with a layer's keys, when keys_begin
    // completes: where in the ring they begin; or that the call is over. Back comes with keys_end what the
    // second has asked for, and whether it has left before that was all.
    struct Keys {
        std::uint32_t layer, page, parity;
        bool over, left;
        AskedFor asked;
    } keys;
    StepBoard step;
};
inline constexpr std::uint32_t control_bytes = 1024;
static_assert(sizeof(Control) <= control_bytes);

constexpr std::uint32_t aligned(std::uint32_t bytes) {
    return (bytes + 127) / 128 * 128;
}

inline constexpr std::uint32_t page_bytes = 32768;

// What a block has beside its control and the ring, from `Begin` on. R: the rows that there is room for (1, 8
// or 16). All offsets in bytes. Activations as in shares.hpp.
template <class D, std::uint32_t R, std::uint32_t Begin>
struct Areas {
    using S = Shares<D>;
    // Half of the sums that two warps have of a tile, for each other, of two bands.
    static constexpr std::uint32_t halves_bytes = 2 * (R == 1 ? 4 * 8 * 8 : consumers * R);
    // One partial result of attention: [head][channels, maximum, sum, gap] f32.
    static constexpr std::uint32_t partial_stride = D::head + 4;
    static constexpr std::uint32_t partial_bytes = S::group_heads * partial_stride * 4;

    // What a member that has spans needs between the input and the output of attention. With several rows it
    // lies where L::hidden does: the next activations come from members that have the result of all spans. (A
    // batch of one does not wait for an owner's answer, so there a member may still fold when they come. And
    // L::fresh lies apart: a member without spans, for which nobody waits, still writes it.)
    static constexpr std::uint32_t row_query_bytes = S::group_heads * D::head * 2;  // [head][channel] bf16
    static constexpr std::uint32_t query_bytes = aligned(R * row_query_bytes);      // swizzled
    static constexpr std::uint32_t fresh_bytes = aligned(R * 2 * D::head * 2);      // [R][k, v][head] bf16
    static constexpr std::uint32_t spans_bytes = aligned(members * partial_bytes);
    static constexpr std::uint32_t attention_bytes = query_bytes + spans_bytes;
    static constexpr std::uint32_t hidden_bytes = aligned(D::hidden * R * 2);
    static constexpr std::uint32_t qkv_bytes = aligned(R * S::qkv_rows * 4),
                                   ffn_bytes = aligned(S::most_ffn_chunks() * chunk * R * 2);
    static constexpr std::uint32_t attended_bytes = aligned(S::output_cols * R * 2);

    static constexpr std::uint32_t patience = Begin;              // [consumers], a byte each
    static constexpr std::uint32_t tiles = patience + consumers;  // [streams] StoredTiles
    static constexpr std::uint32_t weights =
        tiles + aligned(S::streams * sizeof(StoredTiles));  // [layers] LayerWeights
    static constexpr std::uint32_t stretches =
        weights + aligned(D::layers * sizeof(LayerWeights));  // Stretch
    static constexpr std::uint32_t fresh = stretches + aligned(most_stretches(R) * sizeof(Stretch));
    static constexpr std::uint32_t hidden = fresh + fresh_bytes;  // activations
    static constexpr std::uint32_t query = R == 1 ? hidden + hidden_bytes : hidden;
    static constexpr std::uint32_t partials = query + query_bytes;  // spans of this member's rows
    static constexpr std::uint32_t attention_end = query + attention_bytes;
    // The group's queries, keys and values [16 outputs][R][16] f32 and its result, activations; and where the
    // former are dead, the lanes of attention, and later the FFN's activations. Of a batch of one the lanes
    // lie where the products' halves do.
    static constexpr std::uint32_t qkv_lanes = qkv_bytes / partial_bytes;
    static constexpr std::uint32_t lane_slots = R == 1           ? consumer_warps
                                                : qkv_lanes < 16 ? 16
                                                : qkv_lanes < 32 ? qkv_lanes
                                                                 : 32;
    static constexpr std::uint32_t lanes_bytes = aligned(lane_slots * partial_bytes);
    static constexpr std::uint32_t qkv =
        hidden + hidden_bytes > attention_end ? hidden + hidden_bytes : attention_end;
    static constexpr std::uint32_t attended =
        qkv + (R > 1 && lanes_bytes > qkv_bytes ? lanes_bytes : qkv_bytes);
    static constexpr std::uint32_t ffn = qkv;
    static constexpr std::uint32_t halves =
        attended + attended_bytes > ffn + ffn_bytes ? attended + attended_bytes : ffn + ffn_bytes;
    static constexpr std::uint32_t lanes = R == 1 ? halves : qkv;
    static constexpr std::uint32_t halves_end =
        halves + (R == 1 && lanes_bytes > aligned(halves_bytes) ? lanes_bytes : aligned(halves_bytes));
    // Pieces of the residual stream that this block adds up, [128] f32: of a batch of one its slice, else a
    // share of the slices of all rows.
    static constexpr std::uint32_t kept_pieces =
        R == 1 ? S::pieces : (R * S::pieces + S::groups - 1) / S::groups;
    static constexpr std::uint32_t residual = halves_end;
    static constexpr std::uint32_t squares = residual + kept_pieces * 512;  // [members * pieces][R] f32
    static constexpr std::uint32_t scales = squares + aligned(members * S::pieces * R * 4);  // [R] f32
    static constexpr std::uint32_t angles = scales + 128;                           // [R][head / 2] cos, sin
    static constexpr std::uint32_t head_norms = angles + aligned(R * D::head * 4);  // [q, k][head] bf16
    static constexpr std::uint32_t stage = head_norms + aligned(2 * D::head * 2);   // [warp] what it sends
    static constexpr std::uint32_t stage_bytes = R == 16 ? 512 : 256;
    // Where all this lies a token is drawn, too, when the layers are done.
    static constexpr std::uint32_t draw_bytes = 16640;
    static constexpr std::uint32_t stage_end = stage + consumer_warps * stage_bytes;
    static constexpr std::uint32_t end = stage_end > hidden + draw_bytes ? stage_end : hidden + draw_bytes;
};

inline constexpr std::uint32_t block_room = 232448 - 1024;  // of a block on sm_90

template <class D, std::uint32_t R>
constexpr std::uint32_t count_pages() {
    constexpr std::uint32_t beside = control_bytes + Areas<D, R, 0>::end;
    return beside > block_room ? 0 : std::min((block_room - beside) / page_bytes, most_pages);
}
template <class D, std::uint32_t R>
inline constexpr std::uint32_t ring_pages = count_pages<D, R>();

// Shared memory of a block: control, the ring of pages, and all else behind it. (The products read some rows
// past a page whose tiles are fewer than a band's, for nothing: behind the last page something must be.)
template <class D, std::uint32_t R>
struct Layout : Areas<D, R, control_bytes + ring_pages<D, R> * page_bytes> {
    static constexpr std::uint32_t control = 0, ring = control_bytes, pages = ring_pages<D, R>;
    static constexpr std::uint32_t bytes = Layout::end;
    static constexpr std::uint32_t page_tokens = page_bytes / (4 * D::head);  // keys and values
    // Chunks of a page, of all tiles of a band: as many eights as there is room for.
    static constexpr PK_HOST_DEVICE std::uint32_t page_chunks(std::uint32_t tiles) {
        return tiles == 1 ? 32 : tiles == 2 ? 16 : 8;
    }
};

}  // namespace mpk::cluster
