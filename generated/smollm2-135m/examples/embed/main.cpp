// Continues a prompt of token ids and prints the ids as they come:
//   embed WEIGHTS [TOKEN...]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <smollm2_135m/smollm2_135m.h>

namespace {

constexpr std::uint32_t max_new_tokens = 16;

void check(smollm2_135m_status status) {
    if (status == SMOLLM2_135M_OK) return;
    const std::string kind = smollm2_135m_status_name(status);
    throw std::runtime_error(kind + ": " + smollm2_135m_last_error());
}

struct Destroy {
    void operator()(smollm2_135m_model* model) const { smollm2_135m_destroy(model); }
};
using Model = std::unique_ptr<smollm2_135m_model, Destroy>;

Model load(const char* weights) {
    smollm2_135m_options options = {};
    options.struct_bytes = sizeof options;
    options.device = -1;
    options.weights_path = weights;
    smollm2_135m_model* model = nullptr;
    check(smollm2_135m_create(&options, &model));
    return Model(model);
}

std::uint32_t context_of(const Model& model) {
    smollm2_135m_info info = {};
    info.struct_bytes = sizeof info;
    check(smollm2_135m_get_info(model.get(), &info));
    return info.context;
}

// Print the tokens of the only sequence from the `first`-th on; how many there were.
std::uint32_t print_tokens(const Model& model, std::uint32_t first) {
    std::int32_t tokens[max_new_tokens];
    std::uint32_t count = 0;
    std::uint32_t finish = SMOLLM2_135M_RUNNING;
    check(smollm2_135m_tokens(model.get(), 0, first, tokens, max_new_tokens, &count, &finish));
    for (std::uint32_t i = 0; i < count; ++i) std::printf("%d\n", tokens[i]);
    std::fflush(stdout);
    return count;
}

void run(const char* weights, const std::vector<std::int32_t>& prompt) {
    const Model model = load(weights);
    smollm2_135m_sequence sequence = {};
    sequence.struct_bytes = sizeof sequence;
    sequence.prompt = prompt.data();
    sequence.prompt_length = static_cast<std::uint32_t>(prompt.size());
    sequence.max_new_tokens = std::min(max_new_tokens, context_of(model) + 1 - sequence.prompt_length);
    check(smollm2_135m_generate(model.get(), &sequence, 1, nullptr));
    // Another thread waits for the end, and sees the error of a call that fails.
    const auto wait = [&] { check(smollm2_135m_wait(model.get())); };
    std::future<void> ended = std::async(std::launch::async, wait);
    std::uint32_t printed = 0;
    for (bool last = false; !last;) {
        last = ended.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
        printed += print_tokens(model, printed);
    }
    ended.get();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: %s WEIGHTS [TOKEN...]\n", argv[0]);
        return EXIT_FAILURE;
    }
    std::vector<std::int32_t> prompt;
    for (int i = 2; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));
    if (prompt.empty()) prompt.push_back(1);
    try {
        run(argv[1], prompt);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
