// The Exchange over Unix sockets: rank 0 collects what the others send and gives everybody everything.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pk/bootstrap/meeting.hpp"

namespace pk::bootstrap {

class SocketExchange final : public Exchange {
public:
    SocketExchange(int rank, int world, Circle circle, unsigned timeout_ms)
        : Exchange(rank, world), circle_(std::move(circle)), timeout_ms_(timeout_ms), owner_(getpid()) {}

    // Says goodbye with shutdown(), since a child that this process forked may hold the sockets open. In such
    // a child the connection is not ours to end.
    ~SocketExchange() override { hang_up(); }

    bool same_process(int other) const override {
        return circle_.processes[static_cast<std::size_t>(other)] ==
               circle_.processes[static_cast<std::size_t>(rank())];
    }

    void all_gather(const void* mine, void* all, std::size_t bytes) override {
        guarded([&] {
            if (rank() == 0) {
                collect(mine, static_cast<char*>(all), bytes);
            } else {
                take_part(mine, all, bytes);
            }
        });
    }

    std::vector<UniqueFd> all_gather_fds(int mine) override {
        std::vector<UniqueFd> fds(static_cast<std::size_t>(world()));
        const std::vector<int> numbers = gather(*this, mine);
        if (one_process()) {
            together(*this, [&] {
                for (std::size_t r = 0; r < fds.size(); ++r) duplicate(numbers[r], fds[r]);
            });
            return fds;
        }
        guarded([&] {
            const Deadline deadline = call_deadline();
            duplicate(mine, fds[static_cast<std::size_t>(rank())]);
            if (rank() == 0) {
                pass_on(numbers, fds, deadline);
                return;
            }
            if (mine >= 0) check_io(send_fd(host(), mine, deadline), 0);
            receive_answer(0, deadline);
            for (std::size_t r = 0; r < fds.size(); ++r) {
                UniqueFd received;
                if (numbers[r] >= 0) check_io(receive_fd(host(), received, deadline), 0);
                if (r != static_cast<std::size_t>(rank())) fds[r] = std::move(received);
            }
        });
        barrier();  // a rank that could not take one, for want of room, has told nobody yet
        return fds;
    }

private:
    int host() const { return circle_.sockets[0].get(); }
    Deadline call_deadline() const {
        return Deadline(rank() == 0 ? timeout_ms_ : patience_of_others(timeout_ms_));
    }

    // Runs one call. After a failure the ranks are out of step, so every later call fails too.
    template <class Body>
    void guarded(Body&& body) {
        if (!broken_.empty()) {
            fail(Status::internal_error, "rank ", rank(), " cannot exchange any more since: ", broken_);
        }
        ++call_;
        try {
            body();
        } catch (const Error& error) {
            broken_ = error.what();
            if (rank() == 0) {
                for (const UniqueFd& socket : circle_.sockets) {
                    if (socket) send_failure(socket.get(), error);
                }
            } else {
                hang_up();
            }
            throw;
        }
    }

    void hang_up() {
        if (getpid() != owner_) return;
        for (const UniqueFd& socket : circle_.sockets) {
            if (socket) (void)::shutdown(socket.get(), SHUT_RDWR);
        }
    }

    void check_io(Io result, std::size_t other) const {
        if (result == Io::done) return;
        const int error = errno;
        const Status status = result == Io::late ? Status::timeout : Status::io_error;
        if (result == Io::refused) {
            fail(status, "rank ", rank(), " cannot exchange with rank ", other, " in call ", call_, ": ",
                 std::strerror(error));
        }
        if (result == Io::late) {
            fail(status, "rank ", rank(), " waited ", timeout_ms_, " ms for rank ", other, " in call ", call_,
                 " of the exchange");
        }
        fail(status, "rank ", rank(), " has lost rank ", other, " (process ", circle_.processes[other].pid,
             ") in call ", call_, " of the exchange: it ended or closed its connection");
    }

    void duplicate(int from, UniqueFd& to) const {
        if (from < 0) return;
        to = UniqueFd::duplicate(from);
        if (!to) {
            fail(Status::io_error, "rank ", rank(), " cannot duplicate the file descriptor ", from, ": ",
                 std::strerror(errno));
        }
    }

    // Rank 0: everybody's bytes, in whatever order they come; a rank that ends meanwhile ends the call.
    void collect(const void* mine, char* all, std::size_t bytes) {
        if (bytes != 0) std::memmove(all, mine, bytes);
        const Deadline deadline = call_deadline();
        std::vector<pollfd> polled;
        for (const UniqueFd& socket : circle_.sockets) polled.push_back({socket.get(), POLLIN, 0});
        for (int waiting = world() - 1; waiting > 0;) {
            const int ready = poll_until(polled.data(), polled.size(), deadline);
            if (ready < 0) check_io(Io::refused, 0);
            if (ready == 0) give_up(polled);
            for (std::size_t r = 1; r < polled.size(); ++r) {
                if (polled[r].revents == 0) continue;
                if (polled[r].events == 0) check_io(Io::closed, r);  // it is here, and has ended since
                receive_part(r, all + r * bytes, bytes, deadline);
                polled[r].events = 0;
                --waiting;
            }
        }
        const std::size_t total = bytes * static_cast<std::size_t>(world());
        const Header header{.message = Message::gather, .job = circle_.job, .call = call_, .bytes = total};
        for (std::size_t r = 1; r < polled.size(); ++r) {
            check_io(send_message(circle_.sockets[r].get(), header, all, deadline), r);
        }
    }

    void receive_part(std::size_t r, char* part, std::size_t bytes, const Deadline& deadline) {
        const int socket = circle_.sockets[r].get();
        Header header{};
        check_io(receive_all(socket, &header, sizeof header, deadline), r);
        if (header.magic != Header::expected_magic || header.job != circle_.job || header.call != call_ ||
            header.message != Message::gather || header.bytes != bytes) {
            fail(Status::invalid_argument, "rank ", r, " exchanges ", header.bytes, " bytes in its call ",
                 header.call, ", rank 0 ", bytes, " bytes in call ", call_,
                 ": expected the same calls in the same order on all ranks");
        }
        check_io(receive_all(socket, part, bytes, deadline), r);
    }

    [[noreturn]] void give_up(const std::vector<pollfd>& polled) const {
        std::string ranks;
        for (std::size_t r = 1; r < polled.size(); ++r) {
            if (polled[r].events != 0) ranks += (ranks.empty() ? "" : ", ") + std::to_string(r);
        }
        fail(Status::timeout, "rank 0 waited ", timeout_ms_, " ms for rank ", ranks, " of ", world(),
             " in call ", call_, " of the exchange");
    }

    // Others: send the rank's own, receive all or the reason why not.
    void take_part(const void* mine, void* all, std::size_t bytes) {
        const Deadline deadline = call_deadline();
        const Header header{.message = Message::gather, .job = circle_.job, .call = call_, .bytes = bytes};
        const Io sent = send_message(host(), header, mine, deadline);
        if (sent != Io::closed) check_io(sent, 0);  // rank 0 may have said why it left
        const std::size_t total = bytes * static_cast<std::size_t>(world());
        receive_answer(total, deadline);
        check_io(receive_all(host(), all, total, deadline), 0);
    }

    // The header of what rank 0 sends to all, or its failure, which is thrown.
    void receive_answer(std::size_t bytes, const Deadline& deadline) {
        Header answer{};
        check_io(receive_all(host(), &answer, sizeof answer, deadline), 0);
        if (answer.message == Message::failure) receive_failure(host(), rank(), deadline);
        if (answer.job == circle_.job && answer.call == call_ && answer.bytes == bytes) return;
        fail(Status::internal_error, "rank ", rank(), " got ", answer.bytes, " bytes of call ", answer.call,
             " from rank 0, expected ", bytes, " of call ", call_);
    }

    // Rank 0: collects one descriptor of each rank that has one, and hands all of them to each.
    void pass_on(const std::vector<int>& numbers, std::vector<UniqueFd>& fds, const Deadline& deadline) {
        for (std::size_t r = 1; r < fds.size(); ++r) {
            if (numbers[r] >= 0) check_io(receive_fd(circle_.sockets[r].get(), fds[r], deadline), r);
        }
        const Header header{.message = Message::gather, .job = circle_.job, .call = call_};
        std::vector<Io> sent;
        for (const UniqueFd& socket : circle_.sockets) {
            Io result = socket ? send_message(socket.get(), header, nullptr, deadline) : Io::done;
            for (const UniqueFd& fd : fds) {
                if (socket && fd && result == Io::done) result = send_fd(socket.get(), fd.get(), deadline);
            }
            sent.push_back(result);
        }
        // Only now, so that what the others get is whole: they hear of it in the next call.
        for (std::size_t to = 1; to < fds.size(); ++to) check_io(sent[to], to);
    }

    Circle circle_;
    unsigned timeout_ms_;
    pid_t owner_;
    std::uint64_t call_ = 0;
    std::string broken_;
};

}  // namespace pk::bootstrap
