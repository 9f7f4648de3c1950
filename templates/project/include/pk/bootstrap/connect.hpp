// How a rank joins the others.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "pk/bootstrap/environment.hpp"
#include "pk/bootstrap/socket_exchange.hpp"

namespace pk::bootstrap {

struct Options {
    int rank = -1;  // -1: as the launcher's environment says (environment.hpp)
    int world = -1;
    // Where the ranks meet: a name, or the path of a socket file (it has a '/'). One meeting at a time under
    // one name; it is free again as soon as the ranks have met. nullptr: one of the launcher's job.
    const char* rendezvous = nullptr;
    // The caller's all-gather instead of a rendezvous: `bytes` of every rank, in the order of ranks; 0 is
    // success. It is called once, and tells the ranks a name that nobody else has.
    int (*exchange)(void* user, const void* mine, void* all, std::size_t bytes) = nullptr;
    void* user = nullptr;
    unsigned timeout_ms = 20000;  // of the meeting and of every later call
};

// What the caller's all-gather carries.
struct MeetingCard {
    static constexpr std::uint32_t expected_magic = Header::expected_magic;
    std::uint32_t magic = expected_magic;
    std::int32_t rank = -1;
    std::int32_t world = -1;
    std::uint32_t reserved = 0;
    std::uint64_t boot = 0;     // of the running system
    std::uint64_t network = 0;  // abstract names are seen inside one network namespace
    std::uint64_t name = 0;     // that of rank 0 counts
};

inline std::uint64_t boot_number() {
    const UniqueFd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
    char text[64] = {};
    const ssize_t bytes = file ? ::read(file.get(), text, sizeof text) : 0;
    return fnv1a({text, static_cast<std::size_t>(bytes > 0 ? bytes : 0)});
}

inline std::string name_by_callback(const Options& options, int rank, int world) {
    MeetingCard mine;
    mine.rank = rank;
    mine.world = world;
    mine.boot = boot_number();
    mine.network = namespace_number("/proc/self/ns/net");
    mine.name = random_number();
    std::vector<MeetingCard> all(static_cast<std::size_t>(world));
    const int result = options.exchange(options.user, &mine, all.data(), sizeof mine);
    if (result != 0) {
        fail(Status::io_error, "rank ", rank, ": options.exchange returned ", result, ", expected 0");
    }
    for (int r = 0; r < world; ++r) {
        const MeetingCard& card = all[static_cast<std::size_t>(r)];
        if (card.magic != MeetingCard::expected_magic || card.rank != r || card.world != world) {
            fail(Status::invalid_argument, "rank ", rank, ": options.exchange put rank ", card.rank, " of ",
                 card.world, " at place ", r, ", expected rank ", r, " of ", world, " of the same build");
        }
        if (card.boot != mine.boot || card.network != mine.network) {
            fail(Status::unsupported, "rank ", rank, " and rank ", r,
                 " are on different hosts or in different ",
                 "network namespaces, expected one: they pass file descriptors over Unix sockets; containers "
                 "of "
                 "one host can give options.rendezvous the path of a file that they share");
        }
    }
    return "call-" + std::to_string(all[0].name);
}

// The rank and world of the options, or of the environment.
inline void choose_rank(const Options& options, int& rank, int& world) {
    rank = options.rank;
    world = options.world;
    if (rank < 0 || world < 0) {
        const Launch launch = read_launch();
        if (launch.rank < 0) {
            fail(Status::invalid_argument, "options.rank is ", rank, " and options.world ", world,
                 ", expected both, or an environment that says them (RANK and WORLD_SIZE of torchrun, "
                 "OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE, SLURM_PROCID and SLURM_NTASKS)");
        }
        if (rank < 0) rank = launch.rank;
        if (world < 0) world = launch.world;
    }
    if (rank >= world) {
        fail(Status::invalid_argument, "the rank is ", rank, " of a world of ", world, ", expected 0 to ",
             world - 1);
    }
}

// Collective: returns when all ranks have met.
inline std::unique_ptr<Exchange> connect(const Options& options) {
    int rank = -1;
    int world = -1;
    choose_rank(options, rank, world);
    Circle circle;
    if (world == 1) {
        circle.processes.push_back(this_process());
        circle.sockets.resize(1);
    } else {
        const std::string name = options.exchange != nullptr     ? name_by_callback(options, rank, world)
                                 : options.rendezvous != nullptr ? std::string(options.rendezvous)
                                                                 : default_rendezvous(rank);
        const UnixAddress address = unix_address(name, rank);
        const Hello self{rank, world, this_process(), job_number()};
        circle = rank == 0 ? meet_as_host(address, self, options.timeout_ms)
                           : meet_as_guest(address, self, options.timeout_ms);
    }
    return std::make_unique<SocketExchange>(rank, world, std::move(circle), options.timeout_ms);
}

}  // namespace pk::bootstrap
