// What goes over the sockets between rank 0 and the others: a header, then `bytes` of payload.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "pk/bootstrap/exchange.hpp"
#include "pk/bootstrap/socket_io.hpp"

namespace pk::bootstrap {

enum class Message : std::uint32_t {
    hello = 1,  // to rank 0: Hello
    welcome,    // from rank 0: Welcome, then the Process of every rank
    gather,     // to rank 0: the rank's bytes; from rank 0: all of them
    failure,    // from rank 0: Failure
};

struct Header {
    static constexpr std::uint32_t expected_magic =
        0x706b3031;  // another version of these messages: another number
    std::uint32_t magic = expected_magic;
    Message message;
    std::uint64_t job = 0;   // random, made by rank 0 for this meeting; 0 in a hello
    std::uint64_t call = 0;  // counts the collective calls
    std::uint64_t bytes = 0;
};

// Tells processes apart also where containers, each with its own process numbers, share a socket file.
struct Process {
    std::uint64_t pid = 0;
    std::uint64_t pid_namespace = 0;
    bool operator==(const Process&) const = default;
};

inline std::uint64_t namespace_number(const char* link) {
    struct stat about{};
    return ::stat(link, &about) == 0 ? static_cast<std::uint64_t>(about.st_ino) : 0;
}

inline Process this_process() {
    return {static_cast<std::uint64_t>(getpid()), namespace_number("/proc/self/ns/pid")};
}

struct Hello {
    std::int32_t rank = -1;
    std::int32_t world = -1;
    Process process;
    std::uint64_t launcher_job = 0;  // job_number() of environment.hpp
};

struct Failure {
    std::int32_t status = 0;
    char text[1020] = {};
};

inline Io send_message(int socket, Header header, const void* payload, const Deadline& deadline) {
    const Io sent = send_all(socket, &header, sizeof header, deadline);
    return sent == Io::done ? send_all(socket, payload, header.bytes, deadline) : sent;
}

// Tells a rank why there is nothing more to come. It may be gone or stuck itself, so the result is of no use.
inline void send_failure(int socket, const Error& error) {
    Failure failure;
    failure.status = static_cast<std::int32_t>(error.status());
    std::memcpy(failure.text, error.what(), strnlen(error.what(), sizeof failure.text - 1));
    Header header{.message = Message::failure, .bytes = sizeof failure};
    const Deadline brief(100);
    (void)send_message(socket, header, &failure, brief);
}

[[noreturn]] inline void receive_failure(int socket, int rank, const Deadline& deadline) {
    Failure failure;
    if (receive_all(socket, &failure, sizeof failure, deadline) != Io::done) {
        fail(Status::internal_error, "rank ", rank, ": rank 0 failed, and its reason was lost on the way");
    }
    failure.text[sizeof failure.text - 1] = '\0';
    fail(static_cast<Status>(failure.status), failure.text);
}

// Rank 0 gives up first, so that its sentence, which names the rank that is missing, reaches the others
// before they do.
inline unsigned patience_of_others(unsigned timeout_ms) {
    return timeout_ms + std::clamp(timeout_ms / 4, 100u, 1000u);
}

}  // namespace pk::bootstrap
