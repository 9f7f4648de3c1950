// A model: weights, KV cache, tables and results in memory, and the workers that run its plan. One call at a
// time.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "mpk/descriptors.hpp"
#include "mpk/engine/call_state.hpp"
#include "mpk/engine/error.hpp"
#include "mpk/engine/pages.hpp"
#include "mpk/engine/request.hpp"
#include "mpk/engine/results.hpp"
#include "mpk/engine/tables.hpp"
#include "mpk/engine/timeline.hpp"
#include "mpk/engine/weight_file.hpp"
#include "mpk/machine.hpp"
#include "mpk/step.hpp"
#include "mpk/watchdog.hpp"
#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "mpk/engine/cuda_backend.hpp"
#else
#include "mpk/engine/host_backend.hpp"
#endif

namespace mpk::engine {

#if PK_CUDA
template <class Program>
using Backend = CudaBackend<Program>;
#else
template <class Program>
using Backend = HostBackend<Program>;
#endif

template <class Program>
class Engine {
    using Device = Backend<Program>;
    using Scope = typename Device::Scope;

public:
    // A new model of type Model, which derives from this class, from the C interface's options.
    template <class Model, class COptions>
    static Model* create(const Plan& plan, const COptions* given) {
        require_pointer(given, "options");
        const COptions options = read_versioned<COptions>(given, "options");
        require_pointer(options.weights_path, "options.weights_path");
        const Scope scope(options.device);
        return std::make_unique<Model>(plan, options, scope.device()).release();
    }

    // Waits for the call that runs.
    template <class Model>
    static void destroy(Model* model) {
        if (model == nullptr || model->forked()) return;
        const Scope scope(model->backend_.device());
        try {
            model->backend_.wait();
        } catch (const Error&) {
            // The device failed during the call; what can be freed still is.
        }
        delete model;
    }

    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Fill a structure of the C interface.
    template <class CInfo>
    void info(CInfo* given) const {
        require_pointer(given, "info");
        CInfo info = {};
        info.struct_bytes = check_struct_bytes<CInfo>(given, "info");
        info.batch = plan_.batch;
        info.context = plan_.context;
        info.vocab = plan_.vocab;
        info.rows = plan_.rows;
        info.kv_page = plan_.kv_page;
        info.workers = machine_.workers;
        info.cuda = Device::is_cuda ? 1 : 0;
        info.weight_bytes = plan_.weight_bytes;
        info.workspace_bytes = plan_.arena_bytes + live_.bytes + tables_.bytes() + results_bytes(plan_);
        info.kv_bytes = kv_bytes(plan_, machine_.kv.pages);
        info.kv_tokens = machine_.kv.pages * plan_.kv_page;
        *given = info;
    }

    // Start decoding; returns when the work is enqueued.
    template <class CSequence>
    void generate(const CSequence* requests, std::uint32_t count, void* stream) {
        require_pointer(requests, "sequences");
        if (count < 1 || count > plan_.batch) {
            fail(Status::invalid_argument, "count is ", count, ", expected 1 to ", plan_.batch,
                 " (the batch that the library was generated for)");
        }
        std::vector<CSequence> given;
        std::vector<Sequence> sequences;
        const auto* bytes = reinterpret_cast<const std::byte*>(requests);
        const std::uint32_t pitch = requests->struct_bytes;  // of the caller's structure
        for (std::uint32_t s = 0; s < count; ++s) {
            const std::string name = "sequences[" + std::to_string(s) + "]";
            given.push_back(read_versioned<CSequence>(bytes + std::size_t{s} * pitch, name));
            if (given[s].struct_bytes != pitch) {
                fail(Status::invalid_argument, name, ".struct_bytes is ", given[s].struct_bytes,
                     ", expected ", pitch, " as in sequences[0]");
            }
            sequences.push_back(checked_sequence(given[s], name, plan_));
        }
        // Here, as a request that is refused leaves the call before as it is.
        check_pages(plan_, sequences, machine_.kv.pages);

        const auto lock = lock_calls();
        const Scope scope(backend_.device());
        const bool captured = backend_.captures(stream);
        if (!captured) check_idle();
        void* base = backend_.begin_call(live_, captured);
        const CallState image = CallState::at(plan_, base);
        image.clear();
        deal_pages(plan_, sequences, image.page_table);
        for (std::uint32_t s = 0; s < count; ++s) {
            image.sequences[s] = sequences[s];
            image.sequences[s].position = backend_.tokens_ahead(sequences[s]);
            std::copy_n(given[s].prompt, given[s].prompt_length,
                        image.prompts + std::size_t{s} * plan_.context);
        }
        // The code that fills every other step fills the first one, on the image of the state.
        Machine start = machine_;
        image.attach(start);
        first_step(start, image.tokens);

        count_ = count;
        if (!captured) clear_results(plan_, results_);
        timeline_.clear(backend_, stream);
        backend_.launch(machine_, live_, base, live_.used_bytes(plan_, count), stream, captured);
    }

    // Wait for the last call. Throws what went wrong in it, as often as it is asked.
    void wait() {
        check_process();
        const Scope scope(backend_.device());
        backend_.wait();
        std::lock_guard lock(mutex_);
        check_report();
    }

    // Tokens so far; may be called while a call runs.
    Progress tokens(std::uint32_t sequence, std::uint32_t first, std::int32_t* tokens,
                    std::uint32_t capacity) {
        const auto lock = lock_calls();
        check_sequence(sequence);
        if (capacity > 0) require_pointer(tokens, "tokens");
        return copy_tokens(plan_, results_, sequence, first, tokens, capacity);
    }

    void logprobs(std::uint32_t sequence, float* logprobs, std::uint32_t length) {
        const auto lock = lock_calls();
        check_sequence(sequence);
        require_pointer(logprobs, "logprobs");
        if (length > logprobs_pitch(plan_)) {
            fail(Status::invalid_argument, "length is ", length, ", expected 0 to ", logprobs_pitch(plan_),
                 " (the context + 1)");
        }
        const Scope scope(backend_.device());
        check_idle();
        std::copy_n(results_.logprobs + sequence * logprobs_pitch(plan_), length, logprobs);
    }

    void logits(std::uint32_t sequence, float* logits) {
        const auto lock = lock_calls();
        check_sequence(sequence);
        require_pointer(logits, "logits");
        const Scope scope(backend_.device());
        check_idle();
        const TensorDesc& tensor = plan_.tensors[plan_.logits];
        const auto* data = static_cast<const float*>(tables_.tensor(plan_.logits));
        backend_.download(logits, data + std::size_t{sequence} * tensor.stride, plan_.vocab * sizeof(float));
    }

    // What the workers recorded in the last call: at most `room` records, and what there is.
    template <class CRecord, class CTotals>
    void timeline(CRecord* records, std::uint64_t room, CTotals* given) {
        const auto lock = lock_calls();
        require_pointer(given, "info");
        CTotals info = {};
        info.struct_bytes = check_struct_bytes<CTotals>(given, "info");
        if (room > 0) require_pointer(records, "records");
        const Scope scope(backend_.device());
        check_idle();
        const TimelineTotals totals = timeline_.read(backend_, records, room);
        info.first_cut_step = totals.first_cut_step;
        info.records = totals.records;
        info.dropped = totals.dropped;
        *given = info;
    }

    // Used by create; `device` is current.
    template <class COptions>
    Engine(const Plan& plan, const COptions& options, std::int32_t device)
        : plan_(plan), file_(options.weights_path, plan), backend_(device, options.workers) {
        const std::uint64_t pages = page_count(plan, options.kv_tokens);
        arena_ = backend_.allocate(plan.arena_bytes, "activations");
        kv_ = backend_.allocate(kv_bytes(plan, pages), "the KV cache (options.kv_tokens)");
        state_ = backend_.allocate(CallState::at(plan, nullptr).bytes, "the state of a call");
        result_buffer_ = backend_.allocate_output(results_bytes(plan));
        live_ = CallState::at(plan, state_.data());
        results_ = results_at(plan, result_buffer_.data());
        const void* weights = backend_.load_weights(file_, weights_);
        file_.close();
        tables_ = Tables<Device>(plan, backend_, weights, arena_.data(), live_.tokens);

        timeline_ = TimelineBuffers<Device>(backend_, options.timeline_records);

        live_.attach(machine_);
        timeline_.attach(machine_);
        tables_.attach(machine_);
        machine_.output = results_at(plan, backend_.worker_view(result_buffer_));
        machine_.kv.data = kv_.data();
        machine_.kv.pages = pages;
        machine_.kv.pages_per_sequence = pages_per_sequence(plan);
        machine_.timeout_ns =
            std::uint64_t{1000000} * (options.timeout_ms == 0 ? default_timeout_ms : options.timeout_ms);
        machine_.batch = plan.batch;
        machine_.context = plan.context;
        machine_.rows = plan.rows;
        machine_.tokens = plan.tokens;
        machine_.sampled = plan.sampled;
        machine_.workers = backend_.prepare(plan, machine_, tables_);
        // A worker that brought them into another order needs them no more.
        if (!backend_.reads_weights()) weights_ = {};
    }

protected:
    ~Engine() = default;  // destroy waits first

private:
    // Keys and values, bf16.
    static std::uint64_t kv_bytes(const Plan& plan, std::uint64_t pages) {
        return pages * plan.kv_layers * 2 * plan.kv_heads * plan.kv_page * plan.head * sizeof(std::uint16_t);
    }

    // Threads and a GPU's context stay behind when a process forks, and a lock may be held by one of them.
    bool forked() const { return ::getpid() != process_; }

    void check_process() const {
        if (forked()) {
            fail(Status::invalid_argument, "the model was created by process ", process_,
                 ", and this is a fork of it; create a model in each process");
        }
    }

    std::unique_lock<std::mutex> lock_calls() {
        check_process();
        return std::unique_lock(mutex_);
    }

    void check_sequence(std::uint32_t sequence) const {
        if (sequence >= count_) {
            fail(Status::invalid_argument, "sequence is ", sequence, ", but the last generate had ", count_,
                 " sequences");
        }
    }

    void check_idle() {
        if (backend_.busy()) fail(Status::busy, "the model is still running a call; wait for it first");
    }

    void check_report() const {
        const Report report = backend_.report(live_);
        if (report.state == 0) return;
        fail(Status::timeout, "rank ", report.rank, " worker ", report.worker, " waited ",
             machine_.timeout_ns / 1000000, " ms in step ", report.step, " for event ", report.event, " (",
             waiting(report), "): expected its counter at ", report.expected, " or more, saw ", report.seen);
    }

    std::string waiting(const Report& report) const {
        if (report.task == no_task) return "the start of the step";
        const std::string name = report.op < plan_.op_count ? plan_.op_names[report.op] : "unknown";
        return "task " + std::to_string(report.task) + ", operator '" + name + "'";
    }

    const Plan& plan_;
    const pid_t process_ = ::getpid();
    WeightFile file_;
    Device backend_;
    typename Device::Buffer weights_, arena_, kv_, state_;
    typename Device::OutputBuffer result_buffer_;
    CallState live_ = {};  // where the workers read it
    Output results_ = {};  // as the host sees it
    Tables<Device> tables_;
    TimelineBuffers<Device> timeline_;
    Machine machine_ = {};  // as the workers see it
    std::mutex mutex_;      // guards the state of calls: generate, and readers of results
    std::uint32_t count_ = 0;
};

}  // namespace mpk::engine
