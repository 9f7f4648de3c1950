// What the workers of one call share: the task lists, the event counters, the step being computed and the
// sequences. The engine fills a Machine; workers receive it by value.
#pragma once

#include <cstdint>

#include "mpk/descriptors.hpp"
#include "mpk/timeline_buffer.hpp"
#include "pk/platform/platform.hpp"

namespace mpk {

inline constexpr std::uint32_t max_stop_tokens = 16;

enum class Finish : std::uint32_t { running, stop_token, length };

// One sequence of a call. `request` fields are set by the engine, the rest by the advance task, but that the
// engine lets a sequence begin at the position up to which its prompt is read before the first step.
struct Sequence {
    // request
    std::uint32_t prompt_length;  // >= 1; 0 marks an unused entry
    std::uint32_t max_new_tokens;
    float temperature;    // 0: argmax
    std::uint32_t top_k;  // 0: all
    float top_p;          // 1: all
    std::uint32_t
        score_prompt;  // 1: one row a step, and the log-probability of every prompt token is recorded
    std::uint64_t seed;
    std::uint32_t stop_count;
    std::int32_t stop[max_stop_tokens];
    // progress
    std::uint32_t position;   // tokens of this sequence that the steps before this one have put in the cache
    std::uint32_t generated;  // tokens sampled so far
    Finish finish;
};

// The rows of the step being computed. Row r is token `position[r]` of sequence `sequence[r]`; the rows of
// one sequence are consecutive. Written by the advance task of the step before.
struct Step {
    std::uint32_t* row_count;  // [1]
    std::uint32_t* live;       // [1] sequences not finished; 0 ends the call
    std::uint32_t* sequence;   // [rows]
    std::uint32_t* position;   // [rows]
    std::uint32_t* first_row;  // [batch]
    std::uint32_t* rows_of;    // [batch] rows of each sequence in this step, 0 when it has none
    std::int32_t* sample_row;  // [batch] row whose logits the step samples from, -1 for none
    float* sampled_logprob;  // [batch] log-probability of what the sample task chose (or of the forced token)
};

// Where results go while the call runs; on a GPU this is host memory that the device writes.
// tokens[s * context + i] is the i-th generated token of sequence s and is valid for i < count[s].
// logprobs[s * (context + 1) + p] is the log-probability of the token at position p given those before it: of
// every generated token, and of prompt tokens p >= 1 when score_prompt is set. The last token generated may
// have position `context`: it is never read, so it needs no place in the cache.
struct Output {
    std::uint32_t* count;   // [batch], released after the token it counts
    std::uint32_t* finish;  // [batch], a Finish
    std::int32_t* tokens;   // [batch][context]
    float* logprobs;        // [batch][context + 1]
};

// Slots of a bounded queue of ready tasks. A slot holds (ticket + 1) << 32 | task once it is filled. Slots
// and words are zero at the start of a call; give each word a cache line of its own.
struct Queue {
    std::uint64_t* slots;    // [capacity]
    std::int32_t* ready;     // tasks to take, less the takers that have yet to see that they came too late
    std::uint32_t* head;     // next ticket to take
    std::uint32_t* tail;     // next ticket to give
    std::uint32_t capacity;  // a power of two, at least the just-in-time tasks of one step
};

// The first wait that ran out of time. `state` goes 0 (none) -> 1 (being written) -> 2 (complete).
struct Report {
    std::uint32_t state;
    std::uint32_t rank, worker, task, op, event;
    std::uint32_t expected, seen, step;
};

// The paged KV cache, bf16. Of the general worker (cluster/heads.hpp has the other's), element (layer, page,
// k or v, head, token in page, channel) lies at
// ((((layer * pages + page) * 2 + kv) * heads + head) * page_tokens + token) * channels + channel.
struct KvCache {
    void* data;
    std::uint64_t pages;              // of one layer
    const std::uint32_t* page_table;  // [batch][pages_per_sequence]
    std::uint32_t pages_per_sequence;
};

struct Machine {
    const Task* tasks;
    const OpDesc* ops;
    const EventDesc* events;  // [first, first + count) trimmed to what is just-in-time: see task_list.hpp
    void* const* tensors;     // data of each tensor of the plan
    const std::uint32_t* list_begin;  // [workers + 1] into `list`
    const std::uint32_t* list;        // ahead-of-time tasks of each worker, in linear order
    std::uint32_t* counters;          // [event_count], zero at the start of a call
    Queue queue;
    Step step;
    Sequence* sequences;          // [batch]
    const std::int32_t* prompts;  // [batch][context]
    Output output;
    KvCache kv;
    Report* report;            // zero at the start of a call; polled, so device memory on a GPU
    std::uint64_t timeout_ns;  // of one wait
    std::uint32_t rank, workers;
    std::uint32_t batch, context, rows;
    std::uint32_t tokens, sampled;  // tensors
#if PK_TIMELINE
    Timeline timeline;
#endif
};

}  // namespace mpk
