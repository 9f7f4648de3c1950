// Prints the tables of a generated plan as JSON. PLAN is the project's name.
#include <cstdio>

#include "plan.hpp"

namespace {

const mpk::Plan& plan = generated::PLAN::plan::plan;

void print_sizes() {
    std::printf("\"sizes\": {\"name\": \"%s\", \"digest\": \"", plan.name);
    for (unsigned byte : plan.digest) std::printf("%02x", byte);
    std::printf("\"");
    auto number = [](const char* name, unsigned long long value) {
        std::printf(", \"%s\": %llu", name, value);
    };
    number("batch", plan.batch);
    number("context", plan.context);
    number("rows", plan.rows);
    number("vocab", plan.vocab);
    number("kv_page", plan.kv_page);
    number("kv_layers", plan.kv_layers);
    number("kv_heads", plan.kv_heads);
    number("head", plan.head);
    number("slots", plan.slots);
    number("queue_capacity", plan.queue_capacity);
    number("weight_bytes", plan.weight_bytes);
    number("arena_bytes", plan.arena_bytes);
    number("tokens", plan.tokens);
    number("sampled", plan.sampled);
    number("logits", plan.logits);
    std::printf("}");
}

template <class Row>
void print_table(const char* name, std::uint32_t count, Row row) {
    std::printf(",\n\"%s\": [", name);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::printf("%s[", i == 0 ? "" : ", ");
        row(i);
        std::printf("]");
    }
    std::printf("]");
}

}  // namespace

int main() {
    std::printf("{");
    print_sizes();
    print_table("tensors", plan.tensor_count, [](std::uint32_t i) {
        const mpk::TensorDesc& t = plan.tensors[i];
        std::printf("%d, %u, %u, %u, %llu", static_cast<int>(t.space), t.rows, t.cols, t.stride,
                    static_cast<unsigned long long>(t.offset));
    });
    print_table("ops", plan.op_count, [](std::uint32_t i) {
        const mpk::OpDesc& op = plan.ops[i];
        std::printf("\"%s\", %u, %d", plan.op_names[i], op.variant, op.layer);
        for (unsigned operand : op.operand) std::printf(", %u", operand);
    });
    print_table("runs", plan.run_count, [](std::uint32_t i) {
        const mpk::TaskRun& r = plan.runs[i];
        std::printf("%u, %d, %u, %u, %u, %u, %u, %u, %u, %u, %u, %u", r.op, static_cast<int>(r.launch),
                    r.count, r.begin, r.step, r.width, r.limit, r.index, r.index_step, r.wait, r.trigger,
                    r.slot);
    });
    print_table("events", plan.event_count, [](std::uint32_t i) {
        const mpk::EventDesc& e = plan.events[i];
        std::printf("%u, %u, %u", e.threshold, e.first, e.count);
    });
    std::printf("}\n");
}
