// How fast this GPU reads memory at best: the ceiling that a decoding step is held against. Every SM reads a
// contiguous run of pages of its own through a ring of pages in shared memory, with bulk copies that one
// thread issues; on chips without them, with 16-byte loads of all threads. Prints one line of JSON.
//
//     NAME_read_ceiling [GIGABYTES]
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/load.hpp"
#include "pk/ptx/mbarrier.hpp"
#include "pk/ptx/timer.hpp"

namespace {

constexpr std::uint32_t page_bytes = 16 * 1024, page_words = page_bytes / 4;
constexpr std::uint32_t most_pages = 13;  // of a ring: what fits into an SM of sm_90
constexpr std::uint32_t threads = 512;
constexpr int warm_up = 3, samples = 21;

void check(cudaError_t error, const char* what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "cannot %s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

// Every word of a page is its number, so that a sum over pages tells whether the right ones were read.
__global__ void fill(std::uint32_t* memory, std::uint64_t words) {
    const std::uint64_t step = std::uint64_t{gridDim.x} * blockDim.x;
    for (std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) {
        memory[i] = static_cast<std::uint32_t>(i / page_words);
    }
}

#if PK_SM90
constexpr std::uint64_t longest_wait_ns = 2'000'000'000;

// Ends the kernel with an error where the bytes do not come: a fault must not hang the caller.
__device__ void wait(std::uint64_t* barrier, std::uint32_t parity) {
    const std::uint64_t begin = pk::ptx::global_timer();
    while (!pk::ptx::mbarrier_try_wait(barrier, parity)) {
        if (pk::ptx::global_timer() - begin > longest_wait_ns) __trap();
    }
}
#endif

// Block b reads the `pages` pages from b * pages on; a ring of `ring` pages is its dynamic shared memory.
// sums[b]: of one word of each page.
__global__ void __launch_bounds__(threads, 1)
    read_pages(const unsigned char* memory, std::uint32_t pages, std::uint32_t ring, std::uint32_t* sums) {
    const unsigned char* const run = memory + std::uint64_t{blockIdx.x} * pages * page_bytes;
#if PK_SM90
    using namespace pk::ptx;
    extern __shared__ __align__(128) unsigned char slots[];
    __shared__ std::uint64_t full[most_pages];
    // The one thread that issues and waits; it is its own reader, so there is no barrier for free pages.
    if (threadIdx.x != 0) return;
    for (std::uint32_t slot = 0; slot < ring; ++slot) mbarrier_init(&full[slot], 1);
    mbarrier_init_fence();
    const std::uint64_t policy = policy_evict_first();
    std::uint32_t sum = 0;
    for (std::uint32_t page = 0, slot = 0, parity = 1; page < pages + ring; ++page) {
        unsigned char* const to = slots + slot * page_bytes;
        if (page >= ring) {
            wait(&full[slot], parity);
            sum += *reinterpret_cast<const std::uint32_t*>(to);
        }
        if (page < pages) {
            mbarrier_arrive_expect_tx(&full[slot], page_bytes);
            bulk_load(to, run + std::uint64_t{page} * page_bytes, page_bytes, &full[slot], policy);
        }
        if (++slot == ring) {
            slot = 0;
            parity ^= 1;
        }
    }
    sums[blockIdx.x] = sum;
#else
    constexpr std::uint32_t loads = page_bytes / 16 / threads;
    std::uint32_t sum = 0, unused = 0;
#pragma unroll 4
    for (std::uint32_t page = 0; page < pages; ++page) {
        const unsigned char* const from = run + std::uint64_t{page} * page_bytes + threadIdx.x * 16;
        for (std::uint32_t i = 0; i < loads; ++i) {
            const uint4 v = pk::ptx::load_stream(from + i * threads * 16);
            if (i == 0) sum += v.x;
            unused |= v.x ^ v.y ^ v.z ^ v.w;  // 0, as all words of a page are alike
        }
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    if (unused != 0) sums[blockIdx.x] = ~0u;
#endif
}

int attribute(cudaDeviceAttr which) {
    int device = 0, value = 0;
    check(cudaGetDevice(&device), "find a GPU");
    check(cudaDeviceGetAttribute(&value, which, device), "read a device attribute");
    return value;
}

std::uint32_t expected_sum(std::uint64_t first, std::uint32_t pages) {
    std::uint32_t sum = 0;
    for (std::uint32_t i = 0; i < pages; ++i) sum += static_cast<std::uint32_t>(first + i);
    return sum;
}

}  // namespace

int main(int argc, char** argv) {
    const double gigabytes = argc > 1 ? std::atof(argv[1]) : 12;
    std::size_t free_bytes = 0, all_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &all_bytes), "use the GPU");
    const auto sms = static_cast<std::uint32_t>(attribute(cudaDevAttrMultiProcessorCount));
    const double bytes_wanted = std::min(gigabytes * 1e9, 0.5 * static_cast<double>(free_bytes));
    const auto pages = static_cast<std::uint32_t>(bytes_wanted / page_bytes / sms);
    if (pages == 0) {
        std::fprintf(stderr, "too little memory is free, or GIGABYTES is no positive number\n");
        return 1;
    }
    const std::uint64_t bytes = std::uint64_t{pages} * sms * page_bytes;

    cudaFuncAttributes code = {};
    check(cudaFuncGetAttributes(&code, read_pages), "find code for this GPU");
    const bool bulk = code.binaryVersion >= 90;
    const auto room = static_cast<std::uint32_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    const auto fitting = (room - static_cast<std::uint32_t>(code.sharedSizeBytes)) / page_bytes;
    const std::uint32_t ring = bulk ? std::min({most_pages, fitting, pages}) : 0;
    const std::uint32_t ring_bytes = ring * page_bytes;
    check(cudaFuncSetAttribute(read_pages, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(ring_bytes)),
          "reserve shared memory");

    unsigned char* memory = nullptr;
    std::uint32_t* sums = nullptr;
    check(cudaMalloc(&memory, bytes), "allocate memory");
    check(cudaMalloc(&sums, sms * sizeof(std::uint32_t)), "allocate memory");
    fill<<<8 * sms, 256>>>(reinterpret_cast<std::uint32_t*>(memory), bytes / 4);
    check(cudaGetLastError(), "launch the kernel");
    cudaEvent_t begin, end;
    check(cudaEventCreate(&begin), "create an event");
    check(cudaEventCreate(&end), "create an event");
    std::array<double, samples> rates;  // TB/s
    for (int i = -warm_up; i < samples; ++i) {
        check(cudaEventRecord(begin), "time the kernel");
        read_pages<<<sms, threads, ring_bytes>>>(memory, pages, ring, sums);
        check(cudaGetLastError(), "launch the kernel");
        check(cudaEventRecord(end), "time the kernel");
        check(cudaEventSynchronize(end), "read memory");
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, begin, end), "time the kernel");
        if (i >= 0) rates[static_cast<std::size_t>(i)] = static_cast<double>(bytes) / milliseconds * 1e-9;
    }
    std::sort(rates.begin(), rates.end());

    std::vector<std::uint32_t> found(sms);
    check(cudaMemcpy(found.data(), sums, sms * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
          "copy results");
    for (std::uint32_t block = 0; block < sms; ++block) {
        if (found[block] != expected_sum(std::uint64_t{block} * pages, pages)) {
            std::fprintf(stderr, "SM %u read something else than what was written\n", block);
            return 1;
        }
    }
    int driver = 0, runtime = 0;
    check(cudaDriverGetVersion(&driver), "ask for the version");
    check(cudaRuntimeGetVersion(&runtime), "ask for the version");
    std::printf(
        "{\"tb_per_second\": %.4f, \"lowest\": %.4f, \"highest\": %.4f, \"method\": \"%s\", \"bytes\": %llu, "
        "\"sms\": %u, \"ring_pages\": %u, \"cuda_runtime\": \"%d.%d\", \"cuda_driver\": \"%d.%d\"}\n",
        rates[samples / 2], rates.front(), rates.back(), bulk ? "bulk copies" : "16-byte loads",
        static_cast<unsigned long long>(bytes), sms, ring, runtime / 1000, runtime % 1000 / 10, driver / 1000,
        driver % 1000 / 10);
    return 0;
}
