// What the blocks of the cluster worker get besides the Machine.
#pragma once

#include <cstdint>

#include "mpk/cluster/shares.hpp"
#include "pk/tile/bf16.hpp"

namespace mpk::cluster {

// One block's part of the best logits of a sequence.
struct Best {
    float most, sum;  // the largest logit and the sum of exp(logit - most)
    std::uint32_t token;
    std::uint32_t epoch;  // steps done when it was written: written last, released
};

// The weights of a layer that are not on the tape.
struct LayerWeights {
    const pk::tile::bf16 *attention_norm, *q_norm, *k_norm, *ffn_norm;
};

struct Setup {
    const std::uint8_t* tape;         // all blocks' weights in the order in which they are streamed
    const std::uint64_t* tape_begin;  // [blocks + 1] bytes
    const FfnShare* ffn;              // [layers][clusters]
    const LayerWeights* layers;       // [layers]
    const pk::tile::bf16 *embedding, *final_norm;
    // Partial sums of the output and down projections: [parity of the layer][cluster][most_rows][hidden] f32,
    // in whose lowest bit each word carries a tag. All ones at the start of a kernel.
    std::uint32_t* output_sums;
    std::uint32_t* down_sums;
    Best* best;             // [batch][blocks], zero at the start of a call
    std::uint32_t* epoch;   // steps done, released by block 0; zero at the start of a call
    std::uint32_t* chosen;  // sequences for which a token was chosen, in all steps
    std::uint32_t clusters;
    std::uint32_t fewest_rows;  // steps with fewer rows are left to the next kernel of the call
};

}  // namespace mpk::cluster
