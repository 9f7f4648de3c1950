// How errors cross the C interface: inside, an Error is thrown; at the boundary guard() turns any exception
// into a status and keeps its sentence for last_error() of the same thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <utility>

namespace mpk::engine {

// The values are those of the C interface.
enum class Status : int {
    ok = 0,
    invalid_argument = 1,
    io_error = 2,
    wrong_weights = 3,
    out_of_memory = 4,
    unsupported_device = 5,
    cuda_error = 6,
    timeout = 7,
    busy = 8,
    internal_error = 9,
    unsupported = 10,
};

inline const char* status_name(Status status) noexcept {
    switch (status) {
        case Status::ok:
            return "OK";
        case Status::invalid_argument:
            return "INVALID_ARGUMENT";
        case Status::io_error:
            return "IO_ERROR";
        case Status::wrong_weights:
            return "WRONG_WEIGHTS";
        case Status::out_of_memory:
            return "OUT_OF_MEMORY";
        case Status::unsupported_device:
            return "UNSUPPORTED_DEVICE";
        case Status::cuda_error:
            return "CUDA_ERROR";
        case Status::timeout:
            return "TIMEOUT";
        case Status::busy:
            return "BUSY";
        case Status::internal_error:
            return "INTERNAL_ERROR";
        case Status::unsupported:
            return "UNSUPPORTED";
    }
    return "UNKNOWN";
}

class Error : public std::exception {
public:
    Error(Status status, std::string text) : status_(status), text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }
    Status status() const noexcept { return status_; }

private:
    Status status_;
    std::string text_;
};

// Throw an Error whose sentence is the parts printed one after the other.
template <class... Parts>
[[noreturn]] void fail(Status status, const Parts&... parts) {
    std::ostringstream text;
    (text << ... << parts);
    throw Error(status, text.str());
}

// A fixed buffer, so that the report of an allocation failure does not allocate.
inline char* last_error_buffer() noexcept {
    static constexpr std::size_t bytes = 1024;
    static thread_local char buffer[bytes] = "";
    return buffer;
}

inline void set_last_error(const char* text) noexcept {
    static constexpr std::size_t longest = 1023;
    char* buffer = last_error_buffer();
    const std::size_t length = strnlen(text, longest);
    std::memcpy(buffer, text, length);
    buffer[length] = '\0';
}

// Run `body`; nothing thrown leaves.
template <class Body>
Status guard(Body&& body) noexcept {
    try {
        body();
        return Status::ok;
    } catch (const Error& error) {
        set_last_error(error.what());
        return error.status();
    } catch (const std::bad_alloc&) {
        set_last_error("not enough host memory");
        return Status::out_of_memory;
    } catch (const std::exception& error) {
        set_last_error(error.what());
        return Status::internal_error;
    } catch (...) {
        set_last_error("an exception of unknown type was caught");
        return Status::internal_error;
    }
}

}  // namespace mpk::engine
