// The ranks find each other: rank 0 listens, the others say who they are, and rank 0 welcomes them all or
// tells them all why not.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pk/bootstrap/rendezvous.hpp"

namespace pk::bootstrap {

// What a rank has after the meeting.
struct Circle {
    std::uint64_t job = 0;
    std::vector<UniqueFd> sockets;  // rank 0: one to each rank, none to itself; others: sockets[0] alone
    std::vector<Process> processes;
};

inline std::uint64_t random_number() {
    std::uint64_t number = 0;
    while (::getrandom(&number, sizeof number, 0) < 0 && errno == EINTR) {
    }
    return number | 1;  // 0 means none
}

// Rank 0's part.
class Host {
public:
    Host(const UnixAddress& address, Hello self, unsigned timeout_ms)
        : name_(address.name), self_(self), deadline_(timeout_ms), listener_(address, self.world) {
        circle_.sockets.resize(world());
        circle_.processes.resize(world());
        circle_.processes[0] = self.process;
        here_.assign(world(), false);
        here_[0] = true;
    }

    Circle meet() {
        try {
            while (missing() != 0) wait_once();
        } catch (const Error& error) {
            for (const UniqueFd& socket : circle_.sockets) {
                if (socket) send_failure(socket.get(), error);
            }
            for (const UniqueFd& socket : strangers_) send_failure(socket.get(), error);
            throw;
        }
        return std::move(circle_);
    }

private:
    std::size_t world() const { return static_cast<std::size_t>(self_.world); }
    std::size_t missing() const {
        return static_cast<std::size_t>(std::count(here_.begin(), here_.end(), false));
    }

    void wait_once() {
        std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
        for (const UniqueFd& stranger : strangers_) polled.push_back({stranger.get(), POLLIN, 0});
        // A rank that is here says nothing until it is welcomed; only its end is of interest.
        for (const UniqueFd& socket : circle_.sockets) polled.push_back({socket.get(), 0, 0});
        const int ready = poll_until(polled.data(), polled.size(), deadline_);
        if (ready < 0) fail(Status::io_error, "rank 0 cannot wait for the others: ", std::strerror(errno));
        if (ready == 0) give_up();
        const std::size_t first_rank = 1 + strangers_.size();
        for (std::size_t r = 1; r < world(); ++r) {
            if ((polled[first_rank + r].revents & (POLLHUP | POLLERR)) != 0) {
                fail(Status::io_error, "rank ", r, " (process ", circle_.processes[r].pid,
                     ") closed its connection before all ranks had met at '", name_, "'");
            }
        }
        for (std::size_t i = strangers_.size(); i-- > 0;) {
            if (polled[1 + i].revents == 0) continue;
            UniqueFd stranger = std::move(strangers_[i]);
            strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(i));
            greet(std::move(stranger));
        }
        if (polled[0].revents != 0) accept_one();
    }

    void accept_one() {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!socket) {
            if (errno == EINTR || errno == EAGAIN || errno == ECONNABORTED) return;
            fail(Status::io_error, "rank 0 cannot accept a connection at '", name_,
                 "': ", std::strerror(errno));
        }
        ucred who{};
        if (!peer_credentials(socket.get(), who) || who.uid != geteuid()) return;  // not ours: hang up
        strangers_.push_back(std::move(socket));
    }

    void greet(UniqueFd socket) {
        Header header{};
        Hello hello;
        const Deadline brief(std::min(1000, deadline_.left_ms()) + 1u);  // it was written in one piece
        if (receive_all(socket.get(), &header, sizeof header, brief) != Io::done) return;
        if (header.magic != Header::expected_magic || header.message != Message::hello ||
            header.bytes != sizeof hello) {
            const Error error(Status::invalid_argument,
                              "rank 0 does not understand who connects to the rendezvous '" + name_ +
                                  "': all ranks must be of the same build");
            send_failure(socket.get(), error);
            throw error;
        }
        if (receive_all(socket.get(), &hello, sizeof hello, brief) != Io::done) return;
        try {
            check(hello);
        } catch (const Error& error) {
            send_failure(socket.get(), error);
            throw;
        }
        const auto r = static_cast<std::size_t>(hello.rank);
        here_[r] = true;
        circle_.processes[r] = hello.process;
        circle_.sockets[r] = std::move(socket);
    }

    void check(const Hello& hello) const {
        if (hello.world != self_.world) {
            fail(Status::invalid_argument, "rank ", hello.rank, " (process ", hello.process.pid,
                 ") expects a world of ", hello.world, " ranks at the rendezvous '", name_,
                 "', rank 0 (process ", self_.process.pid, ") one of ", self_.world);
        }
        if (hello.launcher_job != 0 && self_.launcher_job != 0 && hello.launcher_job != self_.launcher_job) {
            fail(Status::busy, "rank ", hello.rank, " (process ", hello.process.pid,
                 ") belongs to another job than rank 0 (process ", self_.process.pid,
                 ") by the launcher's environment; both meet at the rendezvous '", name_, "'");
        }
        if (hello.rank < 0 || hello.rank >= self_.world) {
            fail(Status::invalid_argument, "process ", hello.process.pid, " calls itself rank ", hello.rank,
                 " at the rendezvous '", name_, "', expected 0 to ", self_.world - 1);
        }
        const auto r = static_cast<std::size_t>(hello.rank);
        if (here_[r]) {
            fail(Status::busy, "rank ", hello.rank, " came twice to the rendezvous '", name_,
                 "': from process ", circle_.processes[r].pid, " and from process ", hello.process.pid,
                 ", expected one rank of each number and one job of each name");
        }
    }

    [[noreturn]] void give_up() const {
        std::string ranks;
        for (std::size_t r = 0; r < world(); ++r) {
            if (!here_[r]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
        }
        fail(Status::timeout, "rank 0 waited ", deadline_.limit_ms(), " ms at the rendezvous '", name_,
             "' for rank ", ranks, " of a world of ", world());
    }

    std::string name_;
    Hello self_;
    Deadline deadline_;
    Listener listener_;
    Circle circle_;
    std::vector<bool> here_;
    std::vector<UniqueFd> strangers_;  // have connected and not said who they are
};

inline Circle meet_as_host(const UnixAddress& address, const Hello& self, unsigned timeout_ms) {
    Circle circle = Host(address, self, timeout_ms).meet();
    // The listener is gone by now: whoever connects from here on is of the next meeting under this name.
    circle.job = random_number();
    const Header header{
        .message = Message::welcome, .job = circle.job, .bytes = circle.processes.size() * sizeof(Process)};
    const Deadline deadline(timeout_ms);
    for (std::size_t r = 1; r < circle.sockets.size(); ++r) {
        const Io sent = send_message(circle.sockets[r].get(), header, circle.processes.data(), deadline);
        if (sent != Io::done) fail(Status::io_error, "rank 0 cannot welcome rank ", r, ": ", io_text(sent));
    }
    return circle;
}

inline Circle meet_as_guest(const UnixAddress& address, const Hello& self, unsigned timeout_ms) {
    Circle circle;
    circle.processes.resize(static_cast<std::size_t>(self.world));
    UniqueFd socket = connect_to_rank_0(address, self.rank, Deadline(timeout_ms));
    const Deadline deadline(patience_of_others(timeout_ms));
    const Header hello{.message = Message::hello, .bytes = sizeof self};
    (void)send_message(socket.get(), hello, &self,
                       deadline);  // if it fails, there may still be a reason to read
    Header header{};
    const Io received = receive_all(socket.get(), &header, sizeof header, deadline);
    if (received != Io::done) {
        fail(received == Io::late ? Status::timeout : Status::io_error, "rank ", self.rank,
             " was not welcomed by rank 0 at the rendezvous '", address.name, "': ", io_text(received),
             "; expected that all ", self.world, " ranks meet there");
    }
    if (header.message == Message::failure) receive_failure(socket.get(), self.rank, deadline);
    const std::size_t bytes = circle.processes.size() * sizeof(Process);
    if (header.magic != Header::expected_magic || header.message != Message::welcome ||
        header.bytes != bytes ||
        receive_all(socket.get(), circle.processes.data(), bytes, deadline) != Io::done) {
        fail(Status::invalid_argument, "rank ", self.rank, " does not understand rank 0 at the rendezvous '",
             address.name, "': all ranks must be of the same build");
    }
    circle.job = header.job;
    circle.sockets.push_back(std::move(socket));
    return circle;
}

}  // namespace pk::bootstrap
