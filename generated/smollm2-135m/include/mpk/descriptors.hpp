// The plan's tables as the generator prints them. One home for each fact: the field meanings are those of
// kgen's plan, and nothing here is computed again at run time except the expansion of runs into tasks.
#pragma once

#include <cstdint>

namespace mpk {

enum class Space : std::uint8_t {
    weight,      // read-only, from the packed file
    activation,  // the arena, rewritten every step
};

// A buffer: rows of `stride` elements, of which `cols` are data and the rest is zero. `offset` is in bytes
// from the start of its space, a multiple of 256.
struct TensorDesc {
    Space space;
    std::uint32_t rows;
    std::uint32_t cols;
    std::uint32_t stride;
    std::uint64_t offset;
};

inline constexpr std::uint32_t max_operands = 8;

// One operator of one layer. Slot i of `operand` is an index into the tensor table; the variant names the
// slots, and those that it does not have are 0.
struct OpDesc {
    std::uint16_t variant;
    std::int16_t layer;  // layer of the KV cache, -1 where there is none
    std::uint16_t operand[max_operands];
};

enum class Launch : std::uint8_t { aot, jit };

// `count` consecutive tasks that differ by constant steps: task i covers
//   [begin + i * step, min(begin + i * step + width, limit)), index + i * index_step,
// and an ahead-of-time task runs in worker slot (slot + i) % slots.
struct TaskRun {
    std::uint16_t op;
    Launch launch;
    std::uint32_t count;
    std::uint32_t begin, step, width, limit;
    std::uint32_t index, index_step;
    std::uint32_t wait;     // the event the tasks wait for
    std::uint32_t trigger;  // the event they add 1 to
    std::uint32_t slot;
};

// Step s opens the event when its counter is >= threshold * (s + 1); event 0 opens step s when its counter
// is >= threshold * s. The event releases the tasks [first, first + count).
struct EventDesc {
    std::uint32_t threshold;
    std::uint32_t first;
    std::uint32_t count;
};

inline constexpr std::uint32_t start_event = 0;

// One task after expansion.
struct Task {
    std::uint32_t begin, end;
    std::uint32_t index;
    std::uint32_t wait;
    std::uint32_t trigger;
    std::uint16_t op;
    Launch launch;
};

// Sizes of a plan, and where its tables lie.
struct Plan {
    const char* name;
    std::uint8_t digest[32];  // which packed weight files fit
    std::uint32_t batch, context, rows, vocab;
    std::uint32_t kv_page, kv_layers, kv_heads, head;
    std::uint32_t slots;           // worker slots of ahead-of-time tasks
    std::uint32_t queue_capacity;  // a power of two
    std::uint64_t weight_bytes, arena_bytes;
    std::uint32_t tokens, sampled, logits;  // tensors that the engine reads or fills itself
    const TensorDesc* tensors;
    std::uint32_t tensor_count;
    const OpDesc* ops;
    const char* const* op_names;  // of each operator, for messages
    std::uint32_t op_count;
    const TaskRun* runs;
    std::uint32_t run_count;
    const EventDesc* events;
    std::uint32_t event_count;
};

}  // namespace mpk
