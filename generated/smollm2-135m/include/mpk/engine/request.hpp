// Reading what a caller passes through the C interface. Every message names the field, its value and what was
// expected. The C structures are template parameters: their one home is the project's public header.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "mpk/descriptors.hpp"
#include "mpk/engine/error.hpp"
#include "mpk/machine.hpp"

namespace mpk::engine {

inline constexpr std::uint32_t score_prompt_flag = 1;
inline constexpr std::uint32_t default_timeout_ms = 20000;

inline void require_pointer(const void* pointer, const std::string& name) {
    if (pointer == nullptr) fail(Status::invalid_argument, name, " is NULL");
}

// The first field of every structure is struct_bytes, its size where the caller was compiled.
template <class Struct>
std::uint32_t check_struct_bytes(const void* source, const std::string& name) {
    static constexpr std::uint32_t longest = 4096;  // more than any version: the field was not set
    std::uint32_t given = 0;
    std::memcpy(&given, source, sizeof given);
    if (given < sizeof(Struct) || given > longest) {
        fail(Status::invalid_argument, name, ".struct_bytes is ", given, ", expected ", sizeof(Struct),
             " (sizeof of the structure)");
    }
    return given;
}

// Copy a structure. A caller with a longer one (a newer header) is understood as long as the fields that this
// library does not know are zero.
template <class Struct>
Struct read_versioned(const void* source, const std::string& name) {
    const std::uint32_t given = check_struct_bytes<Struct>(source, name);
    const auto* bytes = static_cast<const unsigned char*>(source);
    for (std::size_t i = sizeof(Struct); i < given; ++i) {
        if (bytes[i] != 0) {
            fail(Status::invalid_argument, name, ".struct_bytes is ", given, " and byte ", i,
                 " is set, but this library knows ", sizeof(Struct), " bytes of the structure");
        }
    }
    Struct copy;
    std::memcpy(&copy, source, sizeof copy);
    return copy;
}

inline void check_token(std::int32_t token, const Plan& plan, const std::string& array, std::uint32_t index) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= plan.vocab) {
        fail(Status::invalid_argument, array, "[", index, "] is ", token, ", expected 0 to ", plan.vocab - 1);
    }
}

// Check one sequence of a request, and return it as the workers see it.
template <class CSequence>
Sequence checked_sequence(const CSequence& request, const std::string& name, const Plan& plan) {
    const auto bad = [&](const char* field, const auto& value, const auto&... expected) {
        fail(Status::invalid_argument, name, ".", field, " is ", value, ", expected ", expected...);
    };
    if ((request.flags & ~score_prompt_flag) != 0) bad("flags", request.flags, "0 or SCORE_PROMPT");
    require_pointer(request.prompt, name + ".prompt");
    if (request.prompt_length < 1 || request.prompt_length > plan.context) {
        bad("prompt_length", request.prompt_length, "1 to ", plan.context, " (the context)");
    }
    const std::uint32_t room = plan.context + 1 - request.prompt_length;
    if (request.max_new_tokens < 1 || request.max_new_tokens > room) {
        bad("max_new_tokens", request.max_new_tokens, "1 to ", room, " (context ", plan.context,
            " + 1 - prompt_length ", request.prompt_length, ")");
    }
    for (std::uint32_t i = 0; i < request.prompt_length; ++i) {
        check_token(request.prompt[i], plan, name + ".prompt", i);
    }
    if (request.stop_token_count > max_stop_tokens) {
        bad("stop_token_count", request.stop_token_count, "0 to ", max_stop_tokens);
    }
    if (request.stop_token_count > 0) require_pointer(request.stop_tokens, name + ".stop_tokens");
    for (std::uint32_t i = 0; i < request.stop_token_count; ++i) {
        check_token(request.stop_tokens[i], plan, name + ".stop_tokens", i);
    }
    if (!std::isfinite(request.temperature) || request.temperature < 0) {
        bad("temperature", request.temperature, "0 (argmax) or a positive number");
    }
    if (!(request.top_p >= 0 && request.top_p <= 1)) {
        bad("top_p", request.top_p, "0 to 1 (0 and 1 keep all tokens)");
    }

    Sequence sequence = {};
    sequence.prompt_length = request.prompt_length;
    sequence.max_new_tokens = request.max_new_tokens;
    sequence.temperature = request.temperature;
    sequence.top_k = std::min(request.top_k, plan.vocab);
    sequence.top_p = request.top_p == 0 ? 1.0f : request.top_p;
    sequence.score_prompt = (request.flags & score_prompt_flag) != 0 ? 1 : 0;
    sequence.seed = request.seed;
    sequence.stop_count = request.stop_token_count;
    std::copy_n(request.stop_tokens, request.stop_token_count, sequence.stop);
    sequence.finish = Finish::running;
    return sequence;
}

}  // namespace mpk::engine
