// Runs a machine on host threads: one thread per worker, owned by the model and asleep between calls.
#pragma once

#include <sched.h>
#include <sys/mman.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "mpk/engine/call_state.hpp"
#include "mpk/engine/error.hpp"
#include "mpk/engine/weight_file.hpp"
#include "mpk/machine.hpp"
#include "mpk/worker.hpp"

namespace mpk::engine {

// Zeroed memory from the system, page by page as it is touched.
class HostBuffer {
public:
    HostBuffer() = default;
    HostBuffer(std::size_t bytes, const char* purpose) : bytes_(bytes == 0 ? 1 : bytes) {
        data_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) {
            data_ = nullptr;
            fail(Status::out_of_memory, "cannot allocate ", bytes, " bytes of host memory for ", purpose);
        }
        ::madvise(data_, bytes_, MADV_HUGEPAGE);  // fewer TLB misses where the system allows it
    }
    HostBuffer(HostBuffer&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    HostBuffer& operator=(HostBuffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~HostBuffer() {
        if (data_ != nullptr) ::munmap(data_, bytes_);
    }
    void* data() const { return data_; }

private:
    void* data_ = nullptr;
    std::size_t bytes_ = 0;
};

template <class Program>
class HostBackend {
public:
    using Buffer = HostBuffer;
    using OutputBuffer = HostBuffer;
    static constexpr bool is_cuda = false;

    // What has to surround every call on some targets; nothing here.
    class Scope {
    public:
        explicit Scope(std::int32_t) {}
        std::int32_t device() const { return -1; }
    };

    HostBackend(std::int32_t, std::uint32_t workers) : workers_(workers == 0 ? allowed_cores() : workers) {
        static constexpr std::uint32_t most = 4096;
        if (workers_ > most) {
            fail(Status::invalid_argument, "options.workers is ", workers_, ", expected 0 (one per core) to ",
                 most);
        }
        scratch_ = HostBuffer(std::size_t{workers_} * scratch_stride, "scratch memory of the workers");
        threads_.reserve(workers_);
        try {
            for (std::uint32_t worker = 0; worker < workers_; ++worker) {
                threads_.emplace_back([this, worker](std::stop_token stop) { work(stop, worker); });
            }
        } catch (const std::system_error& error) {
            fail(Status::out_of_memory, "cannot start ", workers_,
                 " worker threads (options.workers): ", error.what());
        }
    }

    std::int32_t device() const { return -1; }
    std::uint32_t workers() const { return workers_; }
    bool reads_weights() const { return true; }
    template <class Tables>
    std::uint32_t prepare(const Plan&, Machine&, const Tables&) const {
        return workers_;
    }

    Buffer allocate(std::size_t bytes, const char* purpose) const { return Buffer(bytes, purpose); }
    OutputBuffer allocate_output(std::size_t bytes) const { return OutputBuffer(bytes, "results"); }
    // The address under which the workers see a result buffer.
    void* worker_view(const OutputBuffer& buffer) const { return buffer.data(); }
    void upload(void* destination, const void* source, std::size_t bytes) const {
        std::memcpy(destination, source, bytes);
    }
    void download(void* destination, const void* source, std::size_t bytes) const {
        std::memcpy(destination, source, bytes);
    }

    // No token of a new sequence is in the cache when its first step begins.
    std::uint32_t tokens_ahead(const Sequence&) const { return 0; }

    // Zero memory before a call that is to be launched on `stream`.
    void clear(void* memory, std::size_t bytes, void*) const { std::memset(memory, 0, bytes); }

    // Weights are used where the file is mapped.
    const void* load_weights(WeightFile& file, Buffer&) const { return file.map(); }

    bool captures(void* stream) const {
        if (stream != nullptr)
            fail(Status::invalid_argument, "stream is not NULL, but this library runs on the host");
        return false;
    }

    // Where the engine writes the state that a call starts from: here in place.
    void* begin_call(const CallState& live, bool) { return live.counters; }

    // Start the workers on a call and return. `machine` stays valid and unchanged until the call ends.
    void launch(const Machine& machine, const CallState&, const void*, std::size_t, void*, bool) {
        {
            std::lock_guard lock(mutex_);
            machine_ = &machine;
            running_ = workers_;
            ++call_;
        }
        start_.notify_all();
    }

    bool busy() {
        std::lock_guard lock(mutex_);
        return running_ != 0;
    }

    void wait() {
        std::unique_lock lock(mutex_);
        done_.wait(lock, [this] { return running_ == 0; });
    }

    Report report(const CallState& live) const { return *live.report; }

private:
    static constexpr std::size_t scratch_stride = (std::size_t{Program::scratch_bytes} + 4095) / 4096 * 4096;

    static std::uint32_t allowed_cores() {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(CPU_COUNT(&set));
        const unsigned cores = std::thread::hardware_concurrency();
        return cores == 0 ? 1 : cores;
    }

    void work(std::stop_token stop, std::uint32_t worker) {
        void* scratch = static_cast<std::byte*>(scratch_.data()) + worker * scratch_stride;
        std::uint64_t seen = 0;
        for (;;) {
            const Machine* machine = nullptr;
            {
                std::unique_lock lock(mutex_);
                if (!start_.wait(lock, stop, [&] { return call_ != seen; })) return;
                seen = call_;
                machine = machine_;
            }
            worker_main<Program>(*machine, worker, scratch);
            std::lock_guard lock(mutex_);
            if (--running_ == 0) done_.notify_all();
        }
    }

    std::uint32_t workers_;
    HostBuffer scratch_;
    std::mutex mutex_;  // guards the four fields below; its hand-over orders a call's memory between threads
    std::condition_variable_any start_;
    std::condition_variable done_;
    const Machine* machine_ = nullptr;
    std::uint32_t running_ = 0;
    std::uint64_t call_ = 0;
    std::vector<std::jthread> threads_;  // last: stopped and joined before anything above goes away
};

}  // namespace mpk::engine
