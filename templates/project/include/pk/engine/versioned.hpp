// Structures of the C interface. The first field of each is struct_bytes, its size where the caller was
// compiled; every message names the field, its value and what was expected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "mpk/engine/error.hpp"

namespace pk::engine {

using mpk::engine::Error;
using mpk::engine::fail;
using mpk::engine::Status;

inline void require_pointer(const void* pointer, const std::string& name) {
    if (pointer == nullptr) fail(Status::invalid_argument, name, " is NULL");
}

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

}  // namespace pk::engine
