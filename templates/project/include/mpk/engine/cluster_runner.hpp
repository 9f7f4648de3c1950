// Runs a decoder with the cluster worker: on a chip with clusters, if enough of them fit.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "mpk/cluster/prefill/kernel.hpp"
#include "mpk/cluster/tape.hpp"
#include "mpk/cluster/worker.hpp"
#include "mpk/engine/cuda_memory.hpp"
#include "mpk/engine/error.hpp"
#include "mpk/engine/kernel.hpp"
#include "mpk/task_list.hpp"
#include "pk/ptx/block_memory.hpp"

namespace mpk::engine {

template <class Program, std::uint32_t R>
__global__ void __launch_bounds__(cluster::block_size, 1)
    run_clusters(const __grid_constant__ Machine machine, const __grid_constant__ cluster::Setup setup) {
// The body needs what only sm_90a has.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    cluster::cluster_main<Program, R>(machine, setup, pk::ptx::block_memory());
#endif
}

template <class Program>
__global__ void __launch_bounds__(cluster::prefill::block_size, 1)
    run_prefill(const __grid_constant__ Machine machine, const __grid_constant__ cluster::Setup setup,
                const __grid_constant__ cluster::prefill::Buffers buffers) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    cluster::prefill::prefill_main<typename Program::Decoder>(machine, setup, buffers,
                                                              pk::ptx::block_memory());
#endif
}

// Whether this chip's code of the kernels above has a body.
template <class Program>
__global__ void say_compiled(int* compiled) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    *compiled = 1;
#else
    *compiled = 0;
#endif
}

template <class Program>
class ClusterRunner {
    using D = typename Program::Decoder;
    using S = cluster::Shares<D>;

    template <std::uint32_t R>
    static constexpr bool fits = cluster::Layout<D, R>::pages >= 2;

public:
    // Rows of a step that shared memory has room for; 0 if there is none for one.
    static constexpr std::uint32_t most_rows = fits<16> ? 16 : fits<8> ? 8 : fits<1> ? 1 : 0;

    // Clusters that run at the same time on the current device; 0 where the worker cannot run.
    template <class Backend>
    static std::uint32_t clusters_that_fit(const Backend& backend, std::int32_t device) {
        int major = 0, minor = 0;
        cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                   "read the chip");
        cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                   "read the chip");
        if (major != 9 || minor != 0 || most_rows < D::batch) return 0;
        // A library for sm_90 without its special features runs here too, but not this worker.
        const DeviceBuffer flag = backend.allocate(sizeof(int), "a flag");
        cuda_check(
            launch_kernel(say_compiled<Program>, 1, 1, backend.copy_stream(), static_cast<int*>(flag.data())),
            "look for the cluster worker");
        int compiled = 0;
        backend.download(&compiled, flag.data(), sizeof compiled);
        if (compiled == 0) return 0;
        std::uint32_t fit = cluster::most_clusters;
        each_kernel([&](auto kernel, std::uint32_t bytes, std::uint32_t) {
            cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
                       "reserve shared memory");
            cudaLaunchAttribute attribute;
            cudaLaunchConfig_t config = configuration(&attribute, cluster::members, bytes, nullptr);
            int count = 0;
            cuda_check(cudaOccupancyMaxActiveClusters(&count, kernel, &config), "compute the occupancy");
            fit = std::min(fit, static_cast<std::uint32_t>(count));
        });
        return S::used_clusters(fit);
    }

    // tensor(i): address of the plan's tensor i on the device.
    template <class Backend, class Tensor>
    ClusterRunner(const Backend& backend, const Plan& plan, std::uint32_t clusters, Tensor tensor)
        : clusters_(clusters) {
        const std::uint32_t blocks = clusters * cluster::members;
        const auto weight = [&](std::uint16_t i) { return static_cast<const pk::tile::bf16*>(tensor(i)); };
        // A copy of a weight that is not on the tape, as the weights as they were loaded may go; null for
        // none.
        const auto kept = [&](std::uint16_t i) -> const pk::tile::bf16* {
            if (i == 0) return nullptr;
            const std::size_t bytes =
                std::size_t{plan.tensors[i].rows} * plan.tensors[i].stride * sizeof(pk::tile::bf16);
            buffers_.push_back(backend.allocate(bytes, "weights beside the tape"));
            cuda_check(cudaMemcpyAsync(buffers_.back().data(), weight(i), bytes, cudaMemcpyDeviceToDevice,
                                       backend.copy_stream()),
                       "copy weights");
            return static_cast<const pk::tile::bf16*>(buffers_.back().data());
        };
        std::vector<cluster::LayerMatrices> matrices;
        std::vector<cluster::LayerWeights> layers;
        for (const auto& l : D::layer) {
            matrices.push_back(
                {weight(l.qkv), weight(l.output), weight(l.gate), weight(l.up), weight(l.down)});
            layers.push_back({kept(l.attention_norm), kept(l.q_norm), kept(l.k_norm), kept(l.ffn_norm)});
        }
        const std::vector<cluster::FfnShare> shares = S::ffn_shares(clusters);
        constexpr std::uint32_t streams = D::layers * cluster::layer_streams + 1;
        std::vector<std::uint64_t> begin(blocks + 1, 0);
        for (std::uint32_t b = 0; b < blocks; ++b) {
            begin[b + 1] = begin[b] + cluster::tape_bytes<D>(streams, b, blocks, shares.data());
        }

        const auto put = [&](const auto& rows) {
            const std::size_t bytes = rows.size() * sizeof(rows[0]);
            buffers_.push_back(backend.allocate(bytes, "the tables of the cluster worker"));
            backend.upload(buffers_.back().data(), rows.data(), bytes);
            return buffers_.back().data();
        };
        const auto room = [&](std::size_t bytes, const char* purpose) {
            buffers_.push_back(backend.allocate(bytes, purpose));
            return buffers_.back().data();
        };
        setup_.ffn = static_cast<const cluster::FfnShare*>(put(shares));
        setup_.layers = static_cast<const cluster::LayerWeights*>(put(layers));
        setup_.tape_begin = static_cast<const std::uint64_t*>(put(begin));
        std::vector<std::uint32_t> op_tasks(plan.op_count, 0);
        const std::vector<Task> tasks = expand_runs(plan);
        for (std::size_t t = tasks.size(); t-- > 0;) op_tasks[tasks[t].op] = static_cast<std::uint32_t>(t);
        setup_.op_tasks = static_cast<const std::uint32_t*>(put(op_tasks));
        setup_.logits = static_cast<float*>(tensor(D::logits));
        setup_.sampled = static_cast<std::int32_t*>(tensor(D::sampled));
        setup_.tokens = static_cast<std::int32_t*>(tensor(D::tokens));
        setup_.embedding = kept(D::embedding);
        setup_.final_norm = kept(D::final_norm);
        setup_.clusters = clusters;
        auto* tape = static_cast<std::uint8_t*>(room(begin[blocks], "the weights in the order of their use"));
        setup_.tape = tape;
        const std::size_t words_of_x = std::size_t{2} * cluster::most_rows * D::hidden;
        sums_bytes_ = 2 * (clusters + 1) * words_of_x * sizeof(std::uint32_t);
        sums_ = room(sums_bytes_, "partial sums");
        setup_.output_sums = static_cast<std::uint32_t*>(sums_);
        setup_.down_sums = setup_.output_sums + clusters * words_of_x;
        setup_.output_x = setup_.down_sums + clusters * words_of_x;
        setup_.down_x = setup_.output_x + words_of_x;
        // Each of the three counters has cache lines of its own.
        const std::size_t best = 768 + (blocks * sizeof(std::uint32_t) + 255) / 256 * 256;
        state_bytes_ = best + std::size_t{plan.batch} * blocks * sizeof(cluster::Best);
        state_ = room(state_bytes_, "the state of the cluster worker");
        setup_.epoch = static_cast<std::uint32_t*>(state_);
        setup_.drawn = setup_.epoch + 64;
        auto* arrived = setup_.epoch + 128;
        setup_.done = setup_.epoch + 192;
        setup_.best = reinterpret_cast<cluster::Best*>(static_cast<std::uint8_t*>(state_) + best);

        using Sizes = cluster::prefill::BufferSizes<D>;
        void* memory = room(Sizes::all, "reading prompts");
        // Padding stays zero.
        cuda_check(cudaMemsetAsync(memory, 0, Sizes::all, backend.copy_stream()), "clear memory");
        prefill_ = Sizes::carve(memory);
        prefill_.arrived = arrived;
        prefill_.streams = static_cast<const std::uint64_t*>(
            put(cluster::prefill::Locator<D>::table(clusters, shares.data(), begin.data())));
        prefill_blocks_ = prepare_prefill();

        const auto* sources = static_cast<const cluster::LayerMatrices*>(put(matrices));
        cuda_check(launch_kernel(cluster::write_tape<D>, dim3(blocks, streams), 256, backend.copy_stream(),
                                 tape, setup_.tape_begin, setup_.ffn, sources, weight(D::logits_weight)),
                   "write the tape");
        cuda_check(cudaStreamSynchronize(backend.copy_stream()), "write the tape");
    }

    std::uint32_t blocks() const { return clusters_ * cluster::members; }

    // How many tokens of a new sequence are read ahead of the first step.
    static std::uint32_t tokens_ahead(const Sequence& sequence) {
        return cluster::prefill::tokens_ahead<D>(sequence);
    }

    // Enqueue a call: if some sequence begins with tokens behind it, the kernel that reads those; then a
    // kernel for every size of step, as the rows of a call's steps only get fewer.
    cudaError_t launch(const Machine& machine, bool reads_ahead, cudaStream_t stream) const {
        cudaError_t status = cudaMemsetAsync(state_, 0, state_bytes_, stream);
        if (reads_ahead && status == cudaSuccess) status = launch_prefill(machine, stream);
        each_kernel([&](auto kernel, std::uint32_t bytes, std::uint32_t fewest) {
            // The tags of the partial sums begin anew in each kernel.
            if (status == cudaSuccess) status = cudaMemsetAsync(sums_, 0xff, sums_bytes_, stream);
            if (status != cudaSuccess) return;
            std::array<cudaLaunchAttribute, 2> attributes;
            cudaLaunchConfig_t config = configuration(attributes.data(), blocks(), bytes, stream);
            attributes[1].id = cudaLaunchAttributeCooperative;
            attributes[1].val.cooperative = 1;
            config.numAttrs = 2;
            cluster::Setup setup = setup_;
            setup.fewest_rows = fewest;
            Machine m = machine;
            void* arguments[] = {&m, &setup};
            status = cudaLaunchKernelExC(&config, kernel, arguments);
        });
        return status;
    }

private:
    // The blocks of the kernel that reads prompts: one on each SM.
    static std::uint32_t prepare_prefill() {
        const void* kernel = kernel_address(run_prefill<Program>);
        constexpr std::uint32_t bytes = cluster::prefill::Memory::bytes;
        cuda_check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)),
                   "reserve shared memory");
        int device = 0, sms = 0;
        cuda_check(cudaGetDevice(&device), "find the device");
        cuda_check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "read the chip");
        return static_cast<std::uint32_t>(sms);
    }

    cudaError_t launch_prefill(Machine machine, cudaStream_t stream) const {
        cluster::Setup setup = setup_;
        cluster::prefill::Buffers buffers = prefill_;
        void* arguments[] = {&machine, &setup, &buffers};
        return cudaLaunchCooperativeKernel(kernel_address(run_prefill<Program>), dim3(prefill_blocks_),
                                           dim3(cluster::prefill::block_size), arguments,
                                           cluster::prefill::Memory::bytes, stream);
    }

    // visit(kernel, bytes of shared memory, fewest rows of its steps), for more rows first.
    template <class Visit>
    static void each_kernel(Visit visit) {
        const auto one = [&]<std::uint32_t R>(std::uint32_t fewest) {
            using L = cluster::Layout<D, R>;
            visit(kernel_address(run_clusters<Program, R>), L::bytes, fewest);
        };
        constexpr std::uint32_t rows = D::rows < most_rows ? D::rows : most_rows;
        if constexpr (rows > 8) one.template operator()<16>(9);
        if constexpr (rows > 1) one.template operator()<8>(2);
        if constexpr (rows > 0) one.template operator()<1>(1);
    }

    static cudaLaunchConfig_t configuration(cudaLaunchAttribute* attribute, std::uint32_t blocks,
                                            std::uint32_t bytes, cudaStream_t stream) {
        attribute->id = cudaLaunchAttributeClusterDimension;
        attribute->val.clusterDim.x = cluster::members;
        attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
        cudaLaunchConfig_t config = {};
        config.gridDim = dim3(blocks);
        config.blockDim = dim3(cluster::block_size);
        config.dynamicSmemBytes = bytes;
        config.stream = stream;
        config.attrs = attribute;
        config.numAttrs = 1;
        return config;
    }

    std::uint32_t clusters_;
    cluster::Setup setup_ = {};
    std::vector<DeviceBuffer> buffers_;
    void *sums_ = nullptr, *state_ = nullptr;
    std::size_t sums_bytes_ = 0, state_bytes_ = 0;
    cluster::prefill::Buffers prefill_ = {};
    std::uint32_t prefill_blocks_ = 0;
};

template <class Program>
struct LazyClusterRunner {
    using type = ClusterRunner<Program>;
};

// For a model that is no decoder.
struct NoClusterRunner {
    std::uint32_t blocks() const { return 0; }
    static std::uint32_t tokens_ahead(const Sequence&) { return 0; }
    cudaError_t launch(const Machine&, bool, cudaStream_t) const { return cudaErrorNotSupported; }
};

template <class Program>
using ClusterRunnerOf =
    typename std::conditional_t<std::is_void_v<typename Program::Decoder>,
                                std::type_identity<NoClusterRunner>, LazyClusterRunner<Program>>::type;

}  // namespace mpk::engine
