// Meetings that cannot come about, ranks that are lost, and what the sentences say.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "cases/bootstrap_memory.hpp"

namespace testing {

inline void refusal_cases(Suite& suite, const std::string& way, Runner run) {
    std::string name = fresh_name();
    Errors errors = run(2, [&](int rank) { (void)meet(name, rank, rank == 0 ? 2 : 3); });
    suite.check(way + ": other world",
                all_contain(errors, "rank 1 (process") && all_contain(errors, "of 3 ranks"), listed(errors));

    name = fresh_name();
    errors = run(3, [&](int rank) { (void)meet(name, rank == 2 ? 1 : rank, 3); });
    suite.check(way + ": twice the same rank", all_contain(errors, "rank 1 came twice"), listed(errors));

    name = fresh_name();
    errors = run(2, [&](int) { (void)meet(name, 0, 2, 1000); });
    suite.check(way + ": two of rank 0",
                contains(listed(errors), "in use by process") &&
                    contains(listed(errors), "for rank 1 of a world of 2"),
                listed(errors));

    name = fresh_name();
    Stopwatch watch;
    errors = run(3, [&](int rank) {
        if (rank != 1) (void)meet(name, rank, 3, 300);
    });
    suite.check(way + ": a rank that does not come",
                contains(errors[0], "rank 0 waited 300 ms") &&
                    contains(errors[0], "for rank 1 of a world of 3") && errors[2] == errors[0] &&
                    watch.ms() < 4000,
                listed(errors));

    name = fresh_name();
    errors = run(1, [&](int) { (void)meet(name, 1, 2, 200); });
    suite.check(way + ": no rank 0", contains(errors[0], "rank 1 waited 200 ms for rank 0"), listed(errors));

    name = fresh_name();
    errors = run(3, [&](int rank) {
        const auto exchange = meet(name, rank, 3, 400);
        exchange->barrier();
        if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1200));
        if (rank != 2) exchange->barrier();
    });
    suite.check(
        way + ": a rank that does not call",
        contains(errors[0], "rank 0 waited 400 ms for rank 2 of 3 in call 2") && errors[1] == errors[0],
        listed(errors));

    name = fresh_name();
    errors = run(2, [&](int rank) {
        const auto exchange = meet(name, rank, 2);
        if (rank == 0) (void)pk::bootstrap::gather(*exchange, std::uint64_t{1});
        if (rank == 1) (void)pk::bootstrap::gather(*exchange, std::uint32_t{1});
    });
    suite.check(way + ": different calls",
                all_contain(errors, "rank 1 exchanges 4 bytes in its call 1, rank 0 8"), listed(errors));
}

// SIGKILL at one rank: the others hear at once, long before their 20 s are over.
inline void lost_rank_cases(Suite& suite) {
    for (const int lost : {0, 2}) {
        const std::string name = fresh_name();
        const Stopwatch watch;
        const Errors errors = as_processes(3, [&](int rank) {
            const auto exchange = meet(name, rank, 3);
            exchange->barrier();
            if (rank == lost) (void)::raise(SIGKILL);
            exchange->barrier();
        });
        bool good = watch.ms() < 3000;
        for (int rank = 0; rank < 3; ++rank) {
            if (rank == lost) continue;
            const std::string& error = errors[static_cast<std::size_t>(rank)];
            good = good && contains(error, "lost rank " + std::to_string(lost));
        }
        suite.check("rank " + std::to_string(lost) + " is killed", good, listed(errors));
    }
    const std::string name = fresh_name();
    const Stopwatch watch;
    const Errors left = as_processes(2, [&](int rank) {
        if (rank == 1) ::alarm(1);
        (void)meet(name, rank, 3, 8000);
    });
    suite.check("a rank dies while others are waited for",
                contains(left[0], "rank 1 (process") && contains(left[0], "before all ranks had met") &&
                    watch.ms() < 5000,
                listed(left));
}

inline void name_cases(Suite& suite) {
    const std::string folder = std::filesystem::temp_directory_path() / fresh_name();
    std::filesystem::create_directory(folder);
    const auto as_file = [&](const std::string& name) {
        return as_processes(2, [&](int rank) { write_and_read(*meet(name, rank, 2, 3000), 100); });
    };
    Errors errors =
        as_threads(2, [&](int rank) { (void)meet(folder + "/" + std::string(120, 'x'), rank, 2); });
    suite.check("long path", all_contain(errors, "expected at most 107"), listed(errors));
    errors = as_threads(2, [&](int rank) { (void)meet(std::string(200, 'x'), rank, 2); });
    suite.check("long name", all_contain(errors, "has 200 bytes, expected at most"), listed(errors));
    errors = as_threads(2, [&](int rank) { (void)meet(folder + "/no/such", rank, 2, 200); });
    suite.check("no such folder", contains(errors[0], "No such file or directory"), listed(errors));

    // Killed while it listened: its file is left, and does not stand in the way.
    const std::string stale = folder + "/stale.socket";
    errors = as_processes(1, [&](int) {
        ::alarm(1);
        (void)meet(stale, 0, 2);
    });
    suite.check("a socket file is left behind", ::access(stale.c_str(), F_OK) == 0 && errors[0] == "killed");
    errors = as_file(stale);
    suite.check("a stale socket file is taken over", first_error(errors).empty(), first_error(errors));
    suite.check("and is gone after", ::access(stale.c_str(), F_OK) != 0);

    const std::string precious = folder + "/precious";
    std::ofstream(precious) << "text";
    errors = as_threads(1, [&](int) { (void)meet(precious, 0, 2, 200); });
    suite.check("a file of another kind is left alone",
                contains(errors[0], "a file of another kind") && std::filesystem::file_size(precious) == 4,
                listed(errors));
    std::filesystem::remove_all(folder);
}

// A stranger that connects and is silent, or of another user, keeps nobody from meeting.
inline void stranger_cases(Suite& suite) {
    for (const uid_t user : {::geteuid(), uid_t{65534}}) {
        if (user != ::geteuid() && ::geteuid() != 0) continue;  // only root can be somebody else
        const std::string name = fresh_name();
        const pk::bootstrap::UnixAddress address = pk::bootstrap::unix_address(name, 0);
        const Errors errors = as_processes(3, [&](int rank) {
            if (rank == 2) {
                const bool other = user != ::geteuid();
                require(!other || ::setuid(user) == 0, "another user");
                const auto socket = pk::bootstrap::new_socket(9);
                while (pk::bootstrap::connect_to(socket.get(), address) != 0) ::usleep(1000);
                const pk::bootstrap::Hello hello{1, 2, {}, 0};
                const pk::bootstrap::Header header{.message = pk::bootstrap::Message::hello,
                                                   .bytes = sizeof hello};
                const pk::bootstrap::Deadline second(1000);
                if (other) (void)pk::bootstrap::send_message(socket.get(), header, &hello, second);
                ::usleep(300000);
                return;
            }
            if (rank == 1) ::usleep(200000);
            write_and_read(*meet(name, rank, 2, 5000), 100);
        });
        suite.check("a stranger of user " + std::to_string(user), first_error(errors).empty(),
                    listed(errors));
    }
    if (::geteuid() != 0) return;
    const std::string name = fresh_name();
    const pk::bootstrap::UnixAddress address = pk::bootstrap::unix_address(name, 0);
    const Errors errors = as_processes(2, [&](int rank) {
        if (rank == 1) (void)meet(name, 1, 2, 1000);
        if (rank == 1) return;
        require(::setuid(65534) == 0, "another user");
        const pk::bootstrap::Listener listener(address, 2);
        ::usleep(300000);
    });
    suite.check("a name held by another user", contains(errors[1], "belongs to user 65534"), listed(errors));
}

// The caller's all-gather, over memory that threads and forked processes share.
struct Board {
    std::atomic<int> arrived;
    int world;
    char rows[4096];

    static int all_gather(void* user, const void* mine, void* all, std::size_t bytes) {
        auto& board = *static_cast<Board*>(user);
        std::int32_t rank = 0;  // of MeetingCard: the callback of a real caller knows its rank
        std::memcpy(&rank, static_cast<const char*>(mine) + 4, sizeof rank);
        std::memcpy(board.rows + static_cast<std::size_t>(rank) * bytes, mine, bytes);
        board.arrived.fetch_add(1);
        while (board.arrived.load() % board.world != 0) std::this_thread::yield();
        std::memcpy(all, board.rows, bytes * static_cast<std::size_t>(board.world));
        return 0;
    }
};

inline void callback_cases(Suite& suite, const std::string& way, Runner run) {
    void* shared = ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto* board = static_cast<Board*>(shared);
    board->world = 3;
    Errors errors = run(3, [&](int rank) {
        pk::bootstrap::Options options;
        options.rank = rank;
        options.world = 3;
        options.exchange = Board::all_gather;
        options.user = board;
        const auto exchange = pk::bootstrap::connect(options);
        exchange_all(*exchange, way == "threads");
        write_and_read(*exchange, 100);
    });
    suite.check(way + ": callback", first_error(errors).empty(), first_error(errors));
    errors = run(1, [&](int) {
        pk::bootstrap::Options options;
        options.rank = 0;
        options.world = 2;
        options.exchange = [](void*, const void*, void*, std::size_t) { return 7; };
        (void)pk::bootstrap::connect(options);
    });
    suite.check(way + ": callback that fails", contains(errors[0], "options.exchange returned 7"),
                listed(errors));
    ::munmap(shared, sizeof(Board));
}

}  // namespace testing
