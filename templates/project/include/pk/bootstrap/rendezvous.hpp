// How rank 0 comes to listen at a name, and the others to be connected to it.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "pk/bootstrap/messages.hpp"
#include "pk/bootstrap/unix_address.hpp"

namespace pk::bootstrap {

inline UniqueFd new_socket(int rank) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) fail(Status::io_error, "rank ", rank, " cannot make a Unix socket: ", std::strerror(errno));
    return fd;
}

inline int connect_to(int socket, const UnixAddress& address) {
    while (::connect(socket, address.get(), address.length) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

// The socket at which rank 0 waits. What it left in the file system goes with it.
class Listener {
public:
    Listener(const UnixAddress& address, int world) : address_(address), socket_(new_socket(0)) {
        if (!bind_to()) {
            const int holder = wait_for_holder();
            if (holder != 0) {
                fail(Status::busy, "rank 0 finds the rendezvous '", address.name, "' in use by process ",
                     holder, ": another job meets under this name, or two ranks were given the number 0");
            }
            // Nobody listens at this file: its process was killed.
            if (::unlink(address_.raw.sun_path) != 0 || !bind_to()) refuse("take over");
        }
        if (address_.is_file) {
            struct stat about{};
            owned_ = ::stat(address_.raw.sun_path, &about) == 0;
            device_ = about.st_dev;
            inode_ = about.st_ino;
            if (::chmod(address_.raw.sun_path, S_IRUSR | S_IWUSR) != 0) refuse("protect");
        }
        if (::listen(socket_.get(), world + 16) != 0) refuse("listen at");
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener() {
        struct stat about{};
        if (owned_ && ::stat(address_.raw.sun_path, &about) == 0 && about.st_dev == device_ &&
            about.st_ino == inode_) {
            (void)::unlink(address_.raw.sun_path);
        }
    }
    int get() const { return socket_.get(); }

private:
    // False if the name is taken.
    bool bind_to() {
        if (::bind(socket_.get(), address_.get(), address_.length) == 0) return true;
        if (errno != EADDRINUSE) refuse("listen at");
        return false;
    }

    // The process that listens at the name, 0 if none does. One that has bound it and not yet called listen()
    // refuses for a moment.
    int wait_for_holder() {
        struct stat about{};
        if (address_.is_file && ::lstat(address_.raw.sun_path, &about) == 0 && !S_ISSOCK(about.st_mode)) {
            fail(Status::invalid_argument, "rank 0: the rendezvous '", address_.name,
                 "' is a file of another kind, expected a Unix socket or no file");
        }
        const Deadline brief(200);
        do {
            const UniqueFd probe = new_socket(0);
            const int error = connect_to(probe.get(), address_);
            if (error == 0) {
                ucred who{};
                (void)peer_credentials(probe.get(), who);
                return std::max<int>(who.pid, 1);
            }
            if (error == ENOENT) break;
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        } while (!brief.passed());
        if (!address_.is_file) fail(Status::busy, "rank 0: the rendezvous '", address_.name, "' is in use");
        return 0;
    }

    [[noreturn]] void refuse(const char* what) {
        fail(Status::io_error, "rank 0 cannot ", what, " the rendezvous '", address_.name,
             "': ", std::strerror(errno));
    }

    UnixAddress address_;
    UniqueFd socket_;
    bool owned_ = false;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};

// A socket of rank `rank`, connected to rank 0's, which may not be there yet.
inline UniqueFd connect_to_rank_0(const UnixAddress& address, int rank, const Deadline& deadline) {
    auto nap = std::chrono::milliseconds(1);
    for (;;) {
        UniqueFd socket = new_socket(rank);
        const int error = connect_to(socket.get(), address);
        if (error == 0) {
            ucred who{};
            if (!peer_credentials(socket.get(), who) || who.uid != geteuid()) {
                fail(Status::io_error, "rank ", rank, ": the rendezvous '", address.name,
                     "' belongs to user ", who.uid, " (process ", who.pid, "), expected user ", geteuid());
            }
            return socket;
        }
        // Not there yet, a file of a killed process that rank 0 will take over, or a full queue.
        if (error != ENOENT && error != ECONNREFUSED && error != EAGAIN) {
            fail(Status::io_error, "rank ", rank, " cannot connect to the rendezvous '", address.name,
                 "': ", std::strerror(error));
        }
        if (deadline.passed()) {
            fail(Status::timeout, "rank ", rank, " waited ", deadline.limit_ms(),
                 " ms for rank 0 at the rendezvous '", address.name, "': nobody listens there");
        }
        std::this_thread::sleep_for(nap);
        nap = std::min(nap * 2, std::chrono::milliseconds(20));
    }
}

}  // namespace pk::bootstrap
