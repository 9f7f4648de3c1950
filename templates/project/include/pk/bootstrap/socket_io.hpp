// Whole messages and file descriptors through a non-blocking Unix socket, each until a deadline. Nothing here
// throws: only the callers know which rank is at the other end.
#pragma once

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstring>

#include "pk/bootstrap/deadline.hpp"
#include "pk/bootstrap/unique_fd.hpp"

namespace pk::bootstrap {

enum class Io {
    done,
    closed,   // the other end is gone
    late,     // the deadline passed
    refused,  // the system refuses; errno says why
};

inline const char* io_text(Io result) {
    switch (result) {
        case Io::done:
            return "done";
        case Io::closed:
            return "its connection is closed";
        case Io::late:
            return "it did not answer in time";
        case Io::refused:
            return std::strerror(errno);
    }
    return "";
}

inline bool is_closed(int error) {
    return error == EPIPE || error == ECONNRESET || error == ENOTCONN;
}

// poll() that goes on after a signal. 0: the deadline passed.
inline int poll_until(pollfd* polled, std::size_t count, const Deadline& deadline) {
    for (;;) {
        const int ready = ::poll(polled, static_cast<nfds_t>(count), deadline.left_ms());
        if (ready > 0 || (ready == 0 && deadline.passed())) return ready;
        if (ready < 0 && errno != EINTR) return ready;
    }
}

inline Io wait_for(int socket, short events, const Deadline& deadline) {
    pollfd polled{socket, events, 0};
    const int ready = poll_until(&polled, 1, deadline);
    return ready > 0 ? Io::done : ready == 0 ? Io::late : Io::refused;
}

// Runs `step`, a send or receive that returns how many bytes it moved, until `bytes` are through. What is at
// hand is moved also when the deadline has passed.
template <class Step>
Io move_all(int socket, short events, std::size_t bytes, const Deadline& deadline, Step&& step) {
    for (std::size_t moved = 0; moved < bytes;) {
        const ssize_t now = step(moved);
        if (now > 0) {
            moved += static_cast<std::size_t>(now);
        } else if (now == 0) {
            return Io::closed;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            const Io waited = wait_for(socket, events, deadline);
            if (waited != Io::done) return waited;
        } else if (errno != EINTR) {
            return is_closed(errno) ? Io::closed : Io::refused;
        }
    }
    return Io::done;
}

// MSG_NOSIGNAL: a closed connection is an answer, not a SIGPIPE.
inline Io send_all(int socket, const void* data, std::size_t bytes, const Deadline& deadline) {
    return move_all(socket, POLLOUT, bytes, deadline, [&](std::size_t at) {
        return ::send(socket, static_cast<const char*>(data) + at, bytes - at, MSG_NOSIGNAL);
    });
}

inline Io receive_all(int socket, void* data, std::size_t bytes, const Deadline& deadline) {
    return move_all(socket, POLLIN, bytes, deadline, [&](std::size_t at) {
        return ::recv(socket, static_cast<char*>(data) + at, bytes - at, 0);
    });
}

// A message of one byte that carries one descriptor.
struct FdMessage {
    char byte = 'f';
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr header{};

    FdMessage() {
        header.msg_iov = &data;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;
    }
};

inline Io send_fd(int socket, int fd, const Deadline& deadline) {
    FdMessage message;
    cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    return move_all(socket, POLLOUT, 1, deadline,
                    [&](std::size_t) { return ::sendmsg(socket, &message.header, MSG_NOSIGNAL); });
}

inline Io receive_fd(int socket, UniqueFd& fd, const Deadline& deadline) {
    FdMessage message;
    const Io received = move_all(socket, POLLIN, 1, deadline, [&](std::size_t) {
        message.header.msg_controllen = sizeof message.control;
        return ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
    });
    if (received != Io::done) return received;
    const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
    if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS || rights->cmsg_len != CMSG_LEN(sizeof(int))) {
        errno = EMFILE;  // the kernel drops descriptors for which this process has no room
        return Io::refused;
    }
    int got = -1;
    std::memcpy(&got, CMSG_DATA(rights), sizeof got);
    fd = UniqueFd(got);
    return Io::done;
}

// Who is at the other end, as the kernel knows it.
inline bool peer_credentials(int socket, ucred& who) {
    socklen_t length = sizeof who;
    return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0;
}

}  // namespace pk::bootstrap
