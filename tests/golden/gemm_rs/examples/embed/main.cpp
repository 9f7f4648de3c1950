// Runs the kernel over ranks that are threads of this process, on GPUs where EMBED_CUDA says so, else on
// the CPU. Every rank checks an element of its output and prints it:
//   embed [RANKS]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include <gemm_rs/gemm_rs.h>

#include "matrix.hpp"

namespace {

constexpr std::uint32_t worlds[] = {1, 2, 4, 8};  // numbers of ranks that there can be

void check(gemm_rs_status status) {
    if (status == GEMM_RS_OK) return;
    const std::string kind = gemm_rs_status_name(status);
    throw std::runtime_error(kind + ": " + gemm_rs_last_error());
}

struct Kernel {
    ~Kernel() { gemm_rs_destroy(handle); }
    gemm_rs_kernel* handle = nullptr;
};

// Every rank calls this; it returns when all have.
void create(Kernel& kernel, std::uint32_t rank, std::uint32_t world, const Place& place) {
    const std::string rendezvous = "embed-" + std::to_string(getpid());  // no other job has this name
    gemm_rs_options options = {};
    options.struct_bytes = sizeof options;
    options.rank = static_cast<std::int32_t>(rank);
    options.world = static_cast<std::int32_t>(world);
    options.rendezvous = rendezvous.c_str();
    options.device = place.gpu;
    check(gemm_rs_create(&options, &kernel.handle));
    gemm_rs_info info = {};
    info.struct_bytes = sizeof info;
    check(gemm_rs_get_info(kernel.handle, &info));
    if (cuda == (info.cuda == 1)) return;
    throw std::runtime_error(cuda ? "this library runs on the host: configure with -DEMBED_CUDA=OFF"
                                  : "this library runs on GPUs: configure with -DEMBED_CUDA=ON");
}

struct Sizes {
    std::uint32_t m, n, k;  // of all ranks together
};

// Close to the one wanted, in a range, and a multiple of `unit`.
[[maybe_unused]] std::uint32_t size_near(std::uint32_t wanted, std::uint32_t unit, std::uint32_t least,
                                         std::uint32_t most) {
    const std::uint32_t up = (std::clamp(wanted, least, most) + unit - 1) / unit * unit;
    return up <= most ? up : most / unit * unit;
}

Sizes choose_sizes([[maybe_unused]] std::uint32_t world) {
    Sizes sizes = {};
    sizes.m = size_near(4 * world + 1, 1, 1, 32768);  // not all ranks have the same
    sizes.n = 4096;
    sizes.k = 8192;
    return sizes;
}

// What the matrices hold. The columns of each operand are all alike, so that a product is left(i) * right(j).
float left(std::uint32_t row) {
    return static_cast<float>(1 + row % 5);
}

float right(std::uint32_t column) {
    return static_cast<float>(1 + column % 3);
}

float expected(std::uint32_t row, std::uint32_t column) {
    float value = left(row) * right(column);
    return value;
}

// What the rank found, as a sentence.
std::string checked(Matrix& output, std::uint32_t rank) {
    std::string text = "rank " + std::to_string(rank) + ": ";
    if (output.rows.count == 0) return text + "no rows";
    const std::uint32_t row = output.rows.begin + output.rows.count - 1;
    const std::uint32_t column = output.columns.begin + output.columns.count - 1;
    const float found = output.last(), right_one = expected(row, column);
    text += "element (" + std::to_string(row) + ", " + std::to_string(column) + ") is ";
    text += std::to_string(found);
    // Operands, summands and results are rounded to bf16.
    if (std::abs(found - right_one) <= 0.02f * right_one) return text;
    throw std::runtime_error(text + ", expected " + std::to_string(right_one));
}

std::string run_rank(std::uint32_t rank, std::uint32_t world) {
    const Place place(rank);
    const Sizes sizes = choose_sizes(world);
    Matrix rows(place, whole(sizes.m), part(sizes.k, rank, world));
    Matrix weight(place, whole(sizes.n), part(sizes.k, rank, world));
    Matrix output(place, part(sizes.m, rank, world), whole(sizes.n));
    const float scale = 1 / std::sqrt(static_cast<float>(sizes.k));
    rows.fill([&](auto i, auto) { return left(i) * scale; });
    weight.fill([&](auto j, auto) { return right(j) * scale; });

    Kernel kernel;  // goes before what it reads and writes
    create(kernel, rank, world, place);
    gemm_rs_arguments arguments = {};
    arguments.struct_bytes = sizeof arguments;
    arguments.m = sizes.m;
    arguments.a = rows.data();
    arguments.b = weight.data();
    arguments.d = output.data();
    check(gemm_rs_run(kernel.handle, &arguments, place.stream));
    check(gemm_rs_wait(kernel.handle));
    return checked(output, rank);
}

// The most ranks that have a GPU each; on the CPU two. The fewest where those are too many.
std::uint32_t default_world() {
    const auto most = static_cast<std::uint32_t>(cuda ? count_gpus() : 2);
    std::uint32_t world = worlds[0];
    for (const std::uint32_t each : worlds) {
        if (each <= most) world = each;
    }
    return world;
}

// How many ranks the arguments ask for; 0 where they are wrong.
std::uint32_t asked_world(int argc, char** argv) {
    if (argc == 1) return default_world();
    for (const std::uint32_t each : worlds) {
        if (argc == 2 && argv[1] == std::to_string(each)) return each;
    }
    return 0;
}

constexpr char usage[] =
    "usage: embed [RANKS]\n"
    "  RANKS: threads that run it together, 1, 2, 4, 8 "
    "[default: as many as have a GPU each; on the CPU 2]\n";

}  // namespace

int main(int argc, char** argv) {
    try {
        const std::uint32_t world = asked_world(argc, argv);
        if (world == 0) {
            std::fputs(usage, stderr);
            return EXIT_FAILURE;
        }
        std::vector<std::future<std::string>> ranks;
        for (std::uint32_t rank = 0; rank < world; ++rank) {
            ranks.push_back(std::async(std::launch::async, run_rank, rank, world));
        }
        for (auto& rank : ranks) std::printf("%s\n", rank.get().c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
