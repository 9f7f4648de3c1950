// Where ranks meet: the address of a Unix socket, from the name that the caller gave.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "pk/bootstrap/exchange.hpp"

namespace pk::bootstrap {

struct UnixAddress {
    sockaddr_un raw{};
    socklen_t length = 0;
    std::string name;  // as the caller gave it, for sentences
    bool is_file = false;

    const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&raw); }
};

// A name with a slash is a file. Any other is a name in Linux' abstract namespace, which leaves no file
// behind and which every network namespace has for itself; the user's number is put before it, so that the
// same name of two users is two names.
inline UnixAddress unix_address(const std::string& name, int rank) {
    UnixAddress address;
    address.name = name;
    address.is_file = name.find('/') != std::string::npos;
    address.raw.sun_family = AF_UNIX;
    const std::string prefix =
        address.is_file ? "" : std::string(1, '\0') + "pk-" + std::to_string(geteuid()) + "-";
    const std::string bytes = prefix + name;
    const std::size_t room = sizeof address.raw.sun_path - 1;  // a file's name ends with a 0
    if (name.empty()) fail(Status::invalid_argument, "rank ", rank, ": the rendezvous name is empty");
    if (bytes.size() > room) {
        fail(Status::invalid_argument, "rank ", rank, ": the rendezvous name '", name, "' has ", name.size(),
             " bytes, expected at most ", room - prefix.size(), " (the limit of a Unix socket's address)",
             address.is_file ? "; give a shorter path, or a name without '/', which needs no file" : "");
    }
    std::memcpy(address.raw.sun_path, bytes.data(), bytes.size());
    address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes.size() + address.is_file);
    return address;
}

}  // namespace pk::bootstrap
