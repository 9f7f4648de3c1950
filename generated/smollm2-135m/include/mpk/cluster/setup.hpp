// What the blocks of the cluster worker get besides the Machine.
#pragma once

#include <cstdint>

#include "mpk/cluster/shares.hpp"
#include "pk/tile/bf16.hpp"

namespace mpk::cluster {

// One block's part of the best logits of a sequence, stored and loaded at once.
struct alignas(16) Best {
    float most, sum;  // the largest logit and the sum of exp(logit - most)
    std::uint32_t token;
    std::uint32_t step;  // of the call, plus 1
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
    float* logits;  // tensors of the plan that the end of a step uses
    std::int32_t *sampled, *tokens;
    const std::uint32_t* op_tasks;  // the first of each operator's tasks in the plan, for the timeline
    // Partial sums of the output and down projections: [parity of the layer][cluster][most_rows][hidden] f32,
    // in whose lowest bit each word carries a tag. All ones at the start of a kernel.
    std::uint32_t* output_sums;
    std::uint32_t* down_sums;
    // The residual stream after those sums, of several rows: [parity of the layer][most_rows][hidden], alike.
    std::uint32_t* output_x;
    std::uint32_t* down_x;
    // All zero at the start of a call:
    Best* best;            // [batch][blocks]
    std::uint32_t* done;   // [blocks] steps that a block has done, released by it
    std::uint32_t* epoch;  // steps done, released by the last block
    std::uint32_t* drawn;  // tokens that blocks have drawn for their sequence, in all steps
    std::uint32_t clusters;
    std::uint32_t fewest_rows;  // steps with fewer rows are left to the next kernel of the call
};

}  // namespace mpk::cluster
