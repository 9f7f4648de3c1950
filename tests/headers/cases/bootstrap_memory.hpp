// Ranks that meet, exchange, and read and write each other's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pk/bootstrap/bootstrap.hpp"
#include "support/ranks.hpp"
#include "support/suite.hpp"

namespace testing {

using Runner = Errors (*)(int world, const RankBody& body);

// A name of this process and this use alone.
inline std::string fresh_name() {
    static int count = 0;
    return "test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

inline std::unique_ptr<pk::bootstrap::Exchange> meet(const std::string& name, int rank, int world,
                                                     unsigned timeout_ms = 20000) {
    pk::bootstrap::Options options;
    options.rank = rank;
    options.world = world;
    options.rendezvous = name.c_str();
    options.timeout_ms = timeout_ms;
    return pk::bootstrap::connect(options);
}

// Every rank writes into every rank's memory, and reads what the others wrote there.
inline void write_and_read(pk::bootstrap::Exchange& exchange, std::size_t bytes) {
    const int rank = exchange.rank();
    const int world = exchange.world();
    const pk::bootstrap::PeerMemory memory(exchange, bytes, 0);
    const auto word = [&](int at, int index) {
        return reinterpret_cast<std::uint32_t*>(memory.at(at)) + index;
    };
    for (int r = 0; r < world; ++r) {
        for (std::size_t i = 0; i < bytes; i += 512) require(memory.at(r)[i] == 0, "memory is zeroed");
    }
    exchange.barrier();
    for (int r = 0; r < world; ++r) *word(r, rank) = static_cast<std::uint32_t>(1000 * rank + r + 1);
    exchange.barrier();
    for (int r = 0; r < world; ++r) {
        for (int from = 0; from < world; ++from) {
            require(*word(r, from) == static_cast<std::uint32_t>(1000 * from + r + 1), "a word of a peer");
        }
    }
    pk::bootstrap::probe(exchange, memory, 1000);
    require(*word(rank, world - 1) == static_cast<std::uint32_t>(1000 * (world - 1) + rank + 1),
            "the probe puts back what was there");
    exchange.barrier();
}

inline void exchange_all(pk::bootstrap::Exchange& exchange, bool one_process) {
    const int rank = exchange.rank();
    require(exchange.one_process() == (one_process || exchange.world() == 1), "who is in this process");
    const std::vector<int> ranks = pk::bootstrap::gather(exchange, rank);
    for (int r = 0; r < exchange.world(); ++r)
        require(ranks[static_cast<std::size_t>(r)] == r, "gathered ranks");
    // More than a socket's buffer.
    std::vector<char> mine(1 << 20, static_cast<char>(rank + 1));
    std::vector<char> all(mine.size() * static_cast<std::size_t>(exchange.world()));
    exchange.all_gather(mine.data(), all.data(), mine.size());
    for (std::size_t i = 0; i < all.size(); i += 4096) {
        require(all[i] == static_cast<char>(i / mine.size() + 1), "gathered megabytes");
    }
    // Files: rank 1 has none.
    pk::bootstrap::UniqueFd file;
    if (rank != 1) file = pk::bootstrap::host::new_file(4096, rank);
    if (file) (void)!::pwrite(file.get(), &rank, sizeof rank, 0);
    const auto files = exchange.all_gather_fds(file.get());
    for (int r = 0; r < exchange.world(); ++r) {
        const auto& theirs = files[static_cast<std::size_t>(r)];
        require(static_cast<bool>(theirs) == (r != 1), "a file of every rank that has one");
        int written = -1;
        if (theirs) (void)!::pread(theirs.get(), &written, sizeof written, 0);
        require(!theirs || written == r, "the file of that rank");
        require(!theirs || (::fcntl(theirs.get(), F_GETFD) & FD_CLOEXEC) != 0, "close-on-exec");
        require(theirs.get() < 0 || theirs.get() != file.get(), "a descriptor of its own");
    }
}

inline void memory_cases(Suite& suite, const std::string& way, Runner run, const std::vector<int>& worlds) {
    const bool one_process = way == "threads";
    for (const int world : worlds) {
        const std::string name = fresh_name();
        const Errors errors = run(world, [&](int rank) {
            const auto exchange = meet(name, rank, world);
            exchange_all(*exchange, one_process);
            write_and_read(*exchange, 70000);
        });
        suite.check(way + " " + std::to_string(world), first_error(errors).empty(), first_error(errors));
    }
}

// The same name again and again, each round with what the last left, and two instances at once.
inline void round_cases(Suite& suite, const std::string& way, Runner run, int world) {
    const std::string name = fresh_name();
    const std::string path = "/tmp/" + fresh_name() + ".socket";
    // The runner's threads share one table of descriptors: counted before and after all of them.
    int files_before = open_files();
    const Errors errors = run(world, [&](int rank) {
        const bool alone = way == "processes";
        if (alone) files_before = open_files();
        for (int round = 0; round < 100; ++round) {
            const auto first = meet(round % 2 == 0 ? name : path, rank, world);
            const auto second = meet(round % 2 == 0 ? path : name, rank, world);
            const pk::bootstrap::PeerMemory one(*first, 4096, 0);
            pk::bootstrap::PeerMemory other(*second, 8192, 0);
            *reinterpret_cast<int*>(other.at((rank + 1) % world)) = rank + 1;
            const pk::bootstrap::PeerMemory moved = std::move(other);
            second->barrier();
            require(*reinterpret_cast<int*>(moved.mine()) == (rank + world - 1) % world + 1,
                    "a neighbour's word");
            require(*reinterpret_cast<int*>(one.mine()) == 0, "the other instance is untouched");
            second->barrier();
        }
        if (alone) require(open_files() == files_before, "no descriptor is left");
        require(mappings("pk-peer-memory") == 0, "no mapping is left");
    });
    suite.check(way + " 100 rounds", first_error(errors).empty(), first_error(errors));
    suite.check(way + " 100 rounds: descriptors", open_files() == files_before);
    suite.check(way + " 100 rounds: no socket file is left", ::access(path.c_str(), F_OK) != 0);
}

inline void view_cases(Suite& suite) {
    const std::string name = fresh_name();
    const Errors errors = as_threads(3, [&](int rank) {
        const auto exchange = meet(name, rank, 3);
        std::vector<int> mine(static_cast<std::size_t>(4 + rank), rank);
        void* data = rank == 1 ? nullptr : mine.data();
        const std::size_t bytes = rank == 1 ? 0 : mine.size() * sizeof(int);
        const pk::bootstrap::PeerView view(*exchange, data, bytes, 0);
        require(view.at(1) == nullptr && view.bytes(1) == 0, "a rank that shows nothing");
        require(view.bytes(2) == 6 * sizeof(int), "the size of another rank");
        require(reinterpret_cast<int*>(view.at(2))[5] == 2, "the memory of another rank");
        exchange->barrier();
    });
    suite.check("view", first_error(errors).empty(), first_error(errors));
}

// Two threads in each of two processes.
inline void mixed_case(Suite& suite) {
    const std::string name = fresh_name();
    const Errors errors = as_processes(2, [&](int process) {
        const Errors inside = as_threads(2, [&](int thread) {
            const int rank = 2 * process + thread;
            const auto exchange = meet(name, rank, 4);
            require(exchange->same_process(rank ^ 1) && !exchange->same_process(rank ^ 2),
                    "who is in this process");
            exchange_all(*exchange, false);
            write_and_read(*exchange, 5000);
        });
        require(first_error(inside).empty(), first_error(inside));
    });
    suite.check("two threads in each of two processes", first_error(errors).empty(), first_error(errors));
}

// A failure of one rank's part is known to all.
inline void together_case(Suite& suite) {
    const std::string name = fresh_name();
    const Errors errors = as_threads(3, [&](int rank) {
        const auto exchange = meet(name, rank, 3);
        const auto failed = pk::bootstrap::try_together(*exchange, [&] {
            if (rank > 0) pk::bootstrap::fail(pk::bootstrap::Status::io_error, "no luck");
        });
        require(failed.status == pk::bootstrap::Status::io_error && failed.text == "rank 1: no luck",
                failed.text);
        const std::size_t asked = rank == 2 ? 100 : 200;
        const pk::bootstrap::PeerMemory memory(*exchange, asked, 0);
    });
    suite.check("different sizes", all_contain(errors, "rank 2 asks for 100 bytes"), listed(errors));
}

}  // namespace testing
