// Peer memory on real devices: ranks as processes and as threads, one device for each or several ranks on
// one.
//   nvcc -std=c++20 -O2 -DPK_CUDA=1 -gencode=arch=compute_90a,code=sm_90a -Itemplates/project/include
//        -Itests/headers tests/gpu/peer_memory.cu -o peer_memory && ./peer_memory
// Processes come first: a child of a process that has used CUDA cannot.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "pk/bootstrap/bootstrap.hpp"
#include "support/ranks.hpp"
#include "support/suite.hpp"

namespace {

using namespace pk::bootstrap;
using testing::Errors;
using testing::require;
using Runner = Errors (*)(int world, const testing::RankBody& body);

__global__ void fill(std::uint32_t* to, std::uint32_t value, std::uint32_t words) {
    for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        to[i] = value + i;
    }
}

__global__ void count_wrong(const std::uint32_t* from, std::uint32_t value, std::uint32_t words,
                            std::uint32_t* wrong) {
    for (std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        if (from[i] != value + i) atomicAdd(wrong, 1u);
    }
}

void synchronize() {
    cuda::check(cudaGetLastError(), "launch a kernel");
    cuda::check(cudaDeviceSynchronize(), "finish a kernel");
}

std::uint32_t wrong_words(const char* from, std::uint32_t value, std::uint32_t words) {
    std::uint32_t* wrong = nullptr;
    cuda::check(cudaMallocHost(&wrong, sizeof *wrong), "allocate host memory");
    *wrong = 0;
    count_wrong<<<8, 256>>>(reinterpret_cast<const std::uint32_t*>(from), value, words, wrong);
    synchronize();
    const std::uint32_t count = *wrong;
    cuda::check(cudaFreeHost(wrong), "free host memory");
    return count;
}

int devices = 0;

int device_of(int rank) {
    return rank % devices;
}

std::unique_ptr<Exchange> meet(const std::string& name, int rank, int world) {
    Options options;
    options.rank = rank;
    options.world = world;
    options.rendezvous = name.c_str();
    return connect(options);
}

constexpr std::uint32_t part_words = 100'000;

std::uint32_t value_of(int from, int to) {
    return static_cast<std::uint32_t>(from * 1000 + to) << 18;
}

// Every rank fills its part of every rank's memory; all parts are right as the owner and the writer read
// them.
void fill_and_check(Exchange& exchange, int rank, const std::vector<char*>& at) {
    const auto part = [&](int owner, int writer) {
        return at[static_cast<std::size_t>(owner)] + static_cast<std::size_t>(writer) * part_words * 4;
    };
    const int world = exchange.world();
    for (int to = 0; to < world; ++to) {
        fill<<<8, 256>>>(reinterpret_cast<std::uint32_t*>(part(to, rank)), value_of(rank, to), part_words);
    }
    synchronize();
    exchange.barrier();
    for (int other = 0; other < world; ++other) {
        require(wrong_words(part(rank, other), value_of(other, rank), part_words) == 0,
                "what rank " + std::to_string(other) + " wrote is here");
        require(wrong_words(part(other, rank), value_of(rank, other), part_words) == 0,
                "what was written at rank " + std::to_string(other) + " is read back");
    }
    exchange.barrier();
}

std::size_t bytes_for(int world) {
    return static_cast<std::size_t>(world) * part_words * 4;
}

void use_memory(Exchange& exchange, int rank, const std::string& expected_way) {
    const int world = exchange.world();
    const int current = (device_of(rank) + 1) % devices;  // of the caller; another where there is another
    cuda::check(cudaSetDevice(current), "select a device");
    const PeerMemory memory(exchange, bytes_for(world), device_of(rank));
    int after = -1;
    cuda::check(cudaGetDevice(&after), "read the device");
    require(after == current, "the caller's device is current again");
    require(std::string(memory.way()) == expected_way,
            std::string("by ") + expected_way + ", not " + memory.way());
    probe(exchange, memory, 5000);
    cuda::check(cudaGetDevice(&after), "read the device");
    require(after == current, "the caller's device is current again after the probe");
    cuda::check(cudaSetDevice(device_of(rank)), "select a device");
    std::vector<char*> at;
    for (int r = 0; r < world; ++r) at.push_back(memory.at(r));
    std::vector<char> bytes(memory.bytes(), 1);
    cuda::check(cudaMemcpy(bytes.data(), memory.mine(), bytes.size(), cudaMemcpyDeviceToHost), "copy");
    require(bytes == std::vector<char>(bytes.size(), 0), "memory is zeroed, and left so by the probe");
    exchange.barrier();
    fill_and_check(exchange, rank, at);
}

void view_and_check(Exchange& exchange, int rank, char* mine) {
    const PeerView view(exchange, mine, bytes_for(exchange.world()), device_of(rank));
    std::vector<char*> at;
    for (int r = 0; r < exchange.world(); ++r) at.push_back(view.at(r));
    exchange.barrier();
    fill_and_check(exchange, rank, at);
}

// The caller's memory: inside an allocation of cudaMalloc, and in VMM memory that can be exported.
void use_views(Exchange& exchange, int rank) {
    cuda::check(cudaSetDevice(device_of(rank)), "select a device");
    const std::size_t bytes = bytes_for(exchange.world());
    const std::size_t offset = 4096 * (static_cast<std::size_t>(rank) + 1);
    char* allocation = nullptr;
    cuda::check(cudaMalloc(&allocation, bytes + offset), "allocate");
    view_and_check(exchange, rank, allocation + offset);
    exchange.barrier();  // all views of it are gone
    cuda::check(cudaFree(allocation), "free");

    const std::size_t size = cuda::round_up(bytes + offset, cuda::vmm_granularity(device_of(rank), true));
    const cuda::VmmHandle handle = cuda::new_vmm_memory(size, device_of(rank), true);
    const std::shared_ptr<char> mapped = cuda::map_vmm_memory(handle.get(), size, device_of(rank));
    view_and_check(exchange, rank, mapped.get() + offset);
    exchange.barrier();

    void* host = nullptr;
    cuda::check(cudaMallocHost(&host, 4096), "allocate host memory");
    const std::string refused =
        testing::error_of([&](int) { const PeerView view(exchange, host, 4096, device_of(rank)); }, rank);
    cuda::check(cudaFreeHost(host), "free host memory");
    require(testing::contains(refused, "is host memory"), "host memory is refused: " + refused);
}

std::size_t free_bytes(int device) {
    cuda::check(cudaSetDevice(device), "select a device");
    std::size_t free = 0;
    std::size_t total = 0;
    cuda::check(cudaMemGetInfo(&free, &total), "count memory");
    return free;
}

void rounds(const std::string& name, int rank, int world, int count) {
    for (int round = 0; round < count; ++round) {
        const auto exchange = meet(name, rank, world);
        const PeerMemory memory(*exchange, std::size_t{8} << 20, device_of(rank));
        probe(*exchange, memory, 5000);
    }
}

// A round leaks nothing: after 100 more as many bytes and descriptors are in use as after the first few.
// Other ranks may be behind, so all meet first.
void use_rounds(Runner run, const std::string& name, int world, testing::Suite& suite,
                const std::string& title) {
    static constexpr std::size_t slack = std::size_t{4} << 20;
    const auto settle = [&](int rank) {
        const auto exchange = meet(name, rank, world);
        exchange->barrier();
        const std::size_t free = free_bytes(device_of(rank));
        exchange->barrier();
        return free;
    };
    const Errors errors = run(world, [&](int rank) {
        rounds(name, rank, world, 3);
        const std::size_t before = settle(rank);
        rounds(name, rank, world, 1);  // descriptors of threads come and go: counted when all are here
        rounds(name, rank, world, 99);
        const std::size_t after = settle(rank);
        require(after + slack >= before,
                std::to_string(before) + " bytes were free, now " + std::to_string(after));
    });
    suite.check(title + ": 100 rounds", testing::first_error(errors).empty(), testing::first_error(errors));
}

void cases(testing::Suite& suite, Runner run, const std::string& ranks, bool by_malloc) {
    (by_malloc ? ::setenv("PK_PEER_MEMORY", "malloc", 1) : ::unsetenv("PK_PEER_MEMORY"));
    for (const int world : {1, 2, 4}) {
        const bool one_process = ranks != "processes" || world == 1;
        const std::string way = !by_malloc    ? "VMM handles"
                                : one_process ? "cudaMalloc and peer access"
                                              : "cudaMalloc and cudaIpc";
        const std::string title = ranks + " " + std::to_string(world) + " by " + way;
        const std::string name = "gpu-" + std::to_string(::getpid()) + "-" + std::to_string(world);
        const auto check = [&](const std::string& what, const testing::RankBody& body) {
            const Errors errors = run(world, body);
            suite.check(title + ": " + what, testing::first_error(errors).empty(),
                        testing::first_error(errors));
        };
        check("memory", [&](int rank) { use_memory(*meet(name, rank, world), rank, way); });
        check("two instances", [&](int rank) {
            const auto first = meet(name, rank, world);
            const auto second = meet(name + "-b", rank, world);
            use_memory(*first, rank, way);
            use_memory(*second, rank, way);
        });
        if (!by_malloc) check("views", [&](int rank) { use_views(*meet(name, rank, world), rank); });
        use_rounds(run, name, world, suite, title);
    }
}

int count_devices() {
    const Errors answer = testing::as_processes(1, [](int) {
        int count = 0;
        (void)cudaGetDeviceCount(&count);
        throw std::runtime_error(std::to_string(count));
    });
    return std::atoi(answer[0].c_str());
}

}  // namespace

int main() {
    testing::Suite suite;
    devices = count_devices();
    suite.check(std::to_string(devices) + " devices", devices > 0);
    if (devices == 0) return suite.finish();
    for (const bool by_malloc : {false, true}) cases(suite, testing::as_processes, "processes", by_malloc);
    const int files = testing::open_files();
    for (const bool by_malloc : {false, true}) cases(suite, testing::as_threads, "threads", by_malloc);
    const int after_first = testing::open_files();  // the driver has opened its own
    for (const bool by_malloc : {false, true}) cases(suite, testing::as_threads, "threads again", by_malloc);
    suite.check(
        "descriptors: " + std::to_string(files) + " at first, " + std::to_string(after_first) + " after once",
        testing::open_files() == after_first, std::to_string(testing::open_files()) + " after twice");
    return suite.finish();
}
