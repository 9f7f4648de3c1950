// A kernel over ranks: the memory that they share, and runs of it. One object a rank, and one run at a time:
// runs may be enqueued one after the other, on whatever streams, and each begins when the one before has
// ended.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "pk/bootstrap/bootstrap.hpp"
#include "pk/engine/report.hpp"
#include "pk/engine/shape.hpp"
#include "pk/engine/shared_memory.hpp"

namespace pk::engine {

inline constexpr std::uint32_t default_timeout_ms = 20000;

// An operation that has memory of its own over ranks: Network, which is made like PeerMemory, and
// fill_network.
template <class Operation>
concept InNetwork = requires { typename Operation::Network; };

struct NoNetwork {};
template <class Operation>
struct NetworkOf {
    using type = NoNetwork;
};
template <InNetwork Operation>
struct NetworkOf<Operation> {
    using type = typename Operation::Network;
};

// Operation: what is run, an overlapped product (product.hpp) or a collective by itself (collective.hpp).
// Program, what kgen compiled (abi, digest of the plan, least_world, most_world, Dims); Device, which runs
// it; Arguments, what all runs have in common; check_sizes, plan, fill; Checked and check, which throw what
// is wrong with a call; enqueue.
template <class Operation>
class Kernel {
    using Program = typename Operation::Program;
    using Device = typename Operation::Device;

public:
    // Collective: all ranks call, and all succeed or all fail.
    template <class Handle, class COptions>
    static Handle* create(const COptions* given) {
        require_pointer(given, "options");
        return std::make_unique<Handle>(read_versioned<COptions>(given, "options")).release();
    }

    // Waits for the runs of this rank. Peers may still run; what they write here meanwhile goes nowhere.
    template <class Handle>
    static void destroy(Handle* kernel) {
        if (kernel == nullptr || kernel->forked()) return;
        delete kernel;
    }

    Kernel(const Kernel&) = delete;
    Kernel& operator=(const Kernel&) = delete;

    // Used by create.
    template <class COptions>
    explicit Kernel(const COptions& options) {
        const std::uint32_t timeout_ms = options.timeout_ms == 0 ? default_timeout_ms : options.timeout_ms;
        bootstrap::Options meeting;
        meeting.rank = options.rank;
        meeting.world = options.world;
        meeting.rendezvous = options.rendezvous;
        meeting.exchange = options.exchange;
        meeting.user = options.user;
        meeting.timeout_ms = timeout_ms;
        bootstrap::choose_rank(meeting, meeting.rank, meeting.world);
        rank_ = static_cast<std::uint32_t>(meeting.rank);
        world_ = static_cast<std::uint32_t>(meeting.world);
        check_world();
        exchange_ = bootstrap::connect(meeting);
        bootstrap::Exchange* const exchange = exchange_.get();
        agree(*exchange);
        const auto plan = Operation::plan(world_);
        bootstrap::together(*exchange,
                            [&] { device_ = std::make_unique<Device>(options.device, options.sms, plan); });
        typename Device::Place place{};
        bootstrap::together(*exchange, [&] { place = device_->place(); });
        const auto places = bootstrap::gather(*exchange, place);
        bootstrap::together(*exchange, [&] { device_->start(places, rank_); });
        for (const auto& capacity : bootstrap::gather(*exchange, device_->capacity()))
            device_->limit(capacity);
        peers_ = bootstrap::PeerMemory(*exchange, plan.bytes, device_->number());
        bootstrap::probe(*exchange, peers_, timeout_ms);
        if constexpr (InNetwork<Operation>) {
            network_ = typename Operation::Network(*exchange, plan.network_bytes, device_->number());
        }
        bootstrap::together(*exchange, [&] { fill(plan, timeout_ms); });
    }

    // Enqueues a run on `stream` and returns; nothing else, so that it may be captured in a graph. All ranks
    // run with the same sizes: where one differs, the others may wait for what never comes, or read what
    // belongs elsewhere, and wait() says so.
    void run(const Call& call, void* stream) {
        check_process();
        const auto checked = Operation::check(call, rank_, world_);
        const std::lock_guard lock(mutex_);
        if (device_->failed())
            fail(status_of(device_->report()), "a run before this one failed: ", failure());
        Operation::enqueue(*device_, common_, shared_, call, checked, stream);
    }

    // Collective, before a run that has a matrix in this memory: peers then read and write it themselves.
    void share(void* memory, std::uint64_t bytes) {
        check_process();
        const std::lock_guard lock(mutex_);
        shared_.add(*exchange_, memory, bytes, device_->number());
    }

    // Returns when all runs that were enqueued so far have ended. Throws what went wrong in any, as often as
    // it is asked.
    void wait() {
        check_process();
        device_->wait();
        const std::lock_guard lock(mutex_);
        if (device_->failed()) fail(status_of(device_->report()), failure());
    }

    template <class CInfo>
    void info(CInfo* given) const {
        check_process();
        require_pointer(given, "info");
        CInfo info = {};
        info.struct_bytes = check_struct_bytes<CInfo>(given, "info");
        info.rank = rank_;
        info.world = world_;
        info.sms = device_->sms();
        info.cuda = Device::is_cuda ? 1 : 0;
        info.device = device_->number();
        info.workspace_bytes = peers_.bytes();
        if constexpr (InNetwork<Operation>) info.workspace_bytes += network_.bytes();
        info.local_bytes = device_->bytes();
        info.peer_memory = peers_.way();
        *given = info;
    }

protected:
    ~Kernel() {
        if constexpr (InNetwork<Operation>) {
            if (may_be_late()) network_.abandon();
        }
    }

private:
    // Whether a peer may still be inside a run that has failed here: this rank did not see it end.
    bool may_be_late() const {
        try {
            device_->wait();
            return device_->failed();
        } catch (const Error&) {
            return true;
        }
    }

    // Every rank must mean the same by what it reads and writes.
    void agree(bootstrap::Exchange& exchange) const {
        struct Card {
            std::uint64_t digest;
            std::uint32_t abi, cuda;
        };
        const Card mine{Program::digest, Program::abi, Device::is_cuda ? 1u : 0u};
        const auto cards = bootstrap::gather(exchange, mine);
        for (std::size_t r = 1; r < cards.size(); ++r) {
            const Card &first = cards[0], &other = cards[r];
            if (other.cuda != first.cuda) {
                fail(Status::invalid_argument, "rank ", r, " runs on ", other.cuda ? "a GPU" : "the host",
                     " and rank 0 on ", first.cuda ? "a GPU" : "the host", ", expected one or the other");
            }
            if (other.abi == first.abi && other.digest == first.digest) continue;
            fail(Status::invalid_argument, "rank ", r, " has plan ", std::hex, other.digest, " (ABI ",
                 std::dec, other.abi, "), rank 0 has plan ", std::hex, first.digest, " (ABI ", std::dec,
                 first.abi, "), expected the same library on all ranks");
        }
    }

    void check_world() const {
        if (world_ < Program::least_world || world_ > Program::most_world) {
            fail(Status::invalid_argument, "the world is ", world_, ", expected ", Program::least_world,
                 " to ", Program::most_world, " (the ranks that the library was generated for)");
        }
        Operation::check_sizes(world_);
    }

    template <class Plan>
    void fill(const Plan& plan, std::uint32_t timeout_ms) {
        common_.rank = rank_;
        common_.world = world_;
        for (std::uint32_t r = 0; r < world_; ++r) common_.peers[r] = peers_.at(static_cast<int>(r));
        common_.timeout_ns = std::uint64_t{timeout_ms} * 1000000;
        Operation::fill(common_, plan);
        if constexpr (InNetwork<Operation>) Operation::fill_network(common_, network_);
        device_->fill(common_);
    }

    std::string failure() const { return sentence(device_->report(), rank_, common_.timeout_ns); }

    // Threads and a GPU's context stay behind when a process forks.
    bool forked() const { return ::getpid() != process_; }
    void check_process() const {
        if (forked()) {
            fail(Status::invalid_argument, "the kernel was created by process ", process_,
                 ", and this is a fork of it; create a kernel in each process");
        }
    }

    const pid_t process_ = ::getpid();
    std::uint32_t rank_ = 0, world_ = 1;
    std::unique_ptr<bootstrap::Exchange> exchange_;
    bootstrap::PeerMemory peers_;
    [[no_unique_address]] typename NetworkOf<Operation>::type network_;
    SharedMemory shared_;
    std::unique_ptr<Device> device_;  // goes first: nothing runs then
    typename Operation::Arguments common_ = {};
    std::mutex mutex_;  // of run and wait
};

}  // namespace pk::engine
