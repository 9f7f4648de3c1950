// Runs a kernel on host threads, which stand for SMs: they belong to the kernel and sleep between runs.
#pragma once

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

#include "pk/engine/copies.hpp"
#include "pk/engine/room.hpp"
#include "pk/engine/versioned.hpp"
#include "pk/lcsc/call.hpp"

namespace pk::engine {

// Work: Run, what a run is told; Scratch, of each thread; run(run, sm, sms, scratch), a thread's part of it.
template <class Work>
class HostThreads {
public:
    using Run = typename Work::Run;
    static constexpr bool is_cuda = false;

    struct Place {
        std::uint32_t sms;
    };

    HostThreads(const HostThreads&) = delete;
    HostThreads& operator=(const HostThreads&) = delete;

    int number() const { return -1; }
    std::uint32_t sms() const { return sms_; }
    Place place() const { return {sms_}; }

    // `least`: of each rank.
    void start(const std::vector<Place>& places, std::uint32_t, std::uint32_t least = 1) {
        const auto ranks = static_cast<std::uint32_t>(places.size());
        if (sms_ == 0) sms_ = std::max(allowed_cores() / ranks, least);
        if (sms_ < least || sms_ > most_sms) {
            fail(Status::invalid_argument, "options.sms is ", sms_, ", expected 0 (a part of the cores) or ",
                 least, " to ", most_sms);
        }
    }

    // Ranks agree on how many: who does what goes by it.
    std::uint32_t capacity() const { return sms_; }
    void limit(std::uint32_t sms) { sms_ = sms_ < sms ? sms_ : sms; }

    void wait() {
        std::unique_lock lock(mutex_);
        const std::uint64_t asked = enqueued_;
        one_ended_.wait(lock, [&] { return ended_ >= asked; });
    }

    bool failed() {
        const std::lock_guard lock(mutex_);
        return failed_;
    }
    lcsc::Report report() {
        const std::lock_guard lock(mutex_);
        return failure_;
    }

protected:
    explicit HostThreads(std::uint32_t sms) : sms_(sms) {}

    // Ends the runs that are enqueued: each of their waits is bounded.
    ~HostThreads() { wait(); }

    void fill_call(lcsc::Call& call) {
        call.state = &state_;
        call.report = &report_;
    }

    void start_threads() {
        try {
            for (std::uint32_t sm = 0; sm < sms_; ++sm) {
                threads_.emplace_back([this, sm](std::stop_token stop) { work(stop, sm); });
            }
        } catch (const std::system_error& error) {
            fail(Status::out_of_memory, "cannot start ", sms_, " threads (options.sms): ", error.what());
        }
    }

    // `before` and `after`: rows to copy when the run begins and when it has ended.
    void enqueue(void* stream, const RowCopy& before, const Run& run, const RowCopy& after) {
        if (stream != nullptr)
            fail(Status::invalid_argument, "stream is not NULL, but this library runs on the host");
        {
            const std::lock_guard lock(mutex_);
            runs_.push_back({before, run, after});
            ++enqueued_;
        }
        changed_.notify_all();
    }

private:
    struct Enqueued {
        RowCopy before;
        Run run;
        RowCopy after;
    };

    static std::uint32_t allowed_cores() {
        cpu_set_t set;
        CPU_ZERO(&set);
        if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(CPU_COUNT(&set));
        const unsigned cores = std::thread::hardware_concurrency();
        return cores == 0 ? 1 : cores;
    }

    // A run begins on all threads when all have ended the one before, as the launches on a stream do.
    void work(std::stop_token stop, std::uint32_t sm) {
        typename Work::Scratch scratch;
        for (std::uint64_t next = 0;; ++next) {
            const Run* run = nullptr;
            {
                std::unique_lock lock(mutex_);
                if (!changed_.wait(lock, stop, [&] { return ended_ == next && enqueued_ > next; })) return;
                copy_rows(runs_.front().before);
                runs_.front().before.rows = 0;  // by the first thread only
                run = &runs_.front().run;
            }
            Work::run(*run, sm, sms_, scratch);
            const std::lock_guard lock(mutex_);
            if (++left_ == sms_) end();
        }
    }

    // By the last thread of a run.
    void end() {
        left_ = 0;
        copy_rows(runs_.front().after);
        runs_.pop_front();
        ++ended_;
        if (!failed_ && report_.state != 0) {
            failed_ = true;
            failure_ = report_;
        }
        changed_.notify_all();
        one_ended_.notify_all();
    }

    static void copy_rows(const RowCopy& copy) {
        for (std::uint64_t row = 0; row < copy.rows; ++row) {
            std::memcpy(static_cast<char*>(copy.to) + row * copy.to_stride,
                        static_cast<const char*>(copy.from) + row * copy.from_stride, copy.row_bytes);
        }
    }

    std::uint32_t sms_;
    lcsc::State state_ = {};
    lcsc::Report report_ = {};  // of the threads, while they run
    std::mutex mutex_;          // guards what follows; its hand-over orders the memory of runs
    std::condition_variable_any changed_;
    std::condition_variable one_ended_;
    std::deque<Enqueued> runs_;
    std::uint64_t enqueued_ = 0, ended_ = 0;
    std::uint32_t left_ = 0;  // threads that have ended the run at the front
    bool failed_ = false;
    lcsc::Report failure_ = {};
    std::vector<std::jthread> threads_;  // last: stopped and joined before anything above goes away
};

}  // namespace pk::engine
