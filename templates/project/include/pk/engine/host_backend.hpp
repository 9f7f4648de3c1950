// Runs a kernel on host threads, which stand for SMs: they belong to the kernel and sleep between runs.
#pragma once

#include <sched.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

#include "pk/engine/outputs.hpp"
#include "pk/engine/versioned.hpp"
#include "pk/engine/weights.hpp"
#include "pk/engine/workspace.hpp"
#include "pk/lcsc/host_kernel.hpp"

namespace pk::engine {

template <class C>
class HostBackend {
public:
    static constexpr bool is_cuda = false;

    struct Place {
        std::uint32_t sms;
    };

    HostBackend(std::int32_t, std::uint32_t sms, std::uint32_t blocks) : sms_(sms), counts_(blocks) {}

    // Ends the runs that are enqueued: each of their waits is bounded.
    ~HostBackend() { wait(); }
    HostBackend(const HostBackend&) = delete;
    HostBackend& operator=(const HostBackend&) = delete;

    int number() const { return -1; }
    std::uint32_t sms() const { return sms_; }
    std::uint64_t bytes() const { return counts_.size() * sizeof(std::uint32_t) + sizeof(lcsc::State); }
    Place place() const { return {sms_}; }

    void start(const std::vector<Place>& places, std::uint32_t) {
        const auto ranks = static_cast<std::uint32_t>(places.size());
        if (sms_ == 0) sms_ = allowed_cores() < ranks ? 1 : allowed_cores() / ranks;
        if (sms_ > most_sms) {
            fail(Status::invalid_argument, "options.sms is ", sms_, ", expected 0 (a part of the cores) to ",
                 most_sms);
        }
    }

    // Ranks agree on how many: whose tiles a thread pushes, its like at the other ranks waits for.
    void limit(std::uint32_t sms) { sms_ = sms_ < sms ? sms_ : sms; }

    void fill(lcsc::Arguments& a) {
        a.state = &state_;
        a.gathered_counts = counts_.data();
        a.report = &report_;
        start_threads();
    }

    void run(const lcsc::Arguments& a, const Weights& weights, const CopyOut& copy, void* stream) {
        if (stream != nullptr)
            fail(Status::invalid_argument, "stream is not NULL, but this library runs on the host");
        {
            const std::lock_guard lock(mutex_);
            runs_.push_back({a, {weights.weight, weights.up, weights.stride, weights.up_stride}, copy});
            ++enqueued_;
        }
        changed_.notify_all();
    }

    void wait() {
        std::unique_lock lock(mutex_);
        idle_.wait(lock, [&] { return ended_ == enqueued_; });
    }

    bool failed() {
        const std::lock_guard lock(mutex_);
        return failed_;
    }
    lcsc::Report report() {
        const std::lock_guard lock(mutex_);
        return failure_;
    }

private:
    struct Run {
        lcsc::Arguments arguments;
        lcsc::HostWeights weights;
        CopyOut copy;
    };

    void start_threads() {
        try {
            for (std::uint32_t sm = 0; sm < sms_; ++sm) {
                threads_.emplace_back([this, sm](std::stop_token stop) { work(stop, sm); });
            }
        } catch (const std::system_error& error) {
            fail(Status::out_of_memory, "cannot start ", sms_, " threads (options.sms): ", error.what());
        }
    }

    static std::uint32_t allowed_cores() {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(CPU_COUNT(&set));
        const unsigned cores = std::thread::hardware_concurrency();
        return cores == 0 ? 1 : cores;
    }

    // A run begins on all threads when all have ended the one before, as the launches on a stream do.
    void work(std::stop_token stop, std::uint32_t sm) {
        lcsc::HostScratch<C> scratch;
        for (std::uint64_t next = 0;; ++next) {
            const Run* run = nullptr;
            {
                std::unique_lock lock(mutex_);
                if (!changed_.wait(lock, stop, [&] { return ended_ == next && enqueued_ > next; })) return;
                run = &runs_.front();
            }
            lcsc::HostBlock<C>(run->arguments, run->weights, sm, sms_, scratch).run();
            const std::lock_guard lock(mutex_);
            if (++left_ == sms_) end();
        }
    }

    // By the last thread of a run.
    void end() {
        left_ = 0;
        const CopyOut& copy = runs_.front().copy;
        for (std::uint64_t row = 0; row < copy.rows; ++row) {
            std::memcpy(static_cast<char*>(copy.to) + row * copy.to_stride,
                        static_cast<const char*>(copy.from) + row * copy.from_stride, copy.row_bytes);
        }
        runs_.pop_front();
        ++ended_;
        if (!failed_ && report_.state != 0) {
            failed_ = true;
            failure_ = report_;
        }
        changed_.notify_all();
        if (ended_ == enqueued_) idle_.notify_all();
    }

    std::uint32_t sms_;
    std::vector<std::uint32_t> counts_;
    lcsc::State state_ = {};
    lcsc::Report report_ = {};  // of the threads, while they run
    std::mutex mutex_;          // guards what follows; its hand-over orders the memory of runs
    std::condition_variable_any changed_;
    std::condition_variable idle_;
    std::deque<Run> runs_;
    std::uint64_t enqueued_ = 0, ended_ = 0;
    std::uint32_t left_ = 0;  // threads that have ended the run at the front
    bool failed_ = false;
    lcsc::Report failure_ = {};
    std::vector<std::jthread> threads_;  // last: stopped and joined before anything above goes away
};

}  // namespace pk::engine
