// The host twin of an all-reduce in the network over ranks that are threads: call after call, each with
// another input in the same place, which the library copies. With PK_DROP it lacks one operation.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "pk/engine/kernel.hpp"
#include "pk/engine/network.hpp"
#include "support/kernel_options.hpp"
#include "support/ranks.hpp"

namespace {

struct Program {
    struct Config {
        using Type = pk::lcsc::Bf16;
        static constexpr auto collective = pk::lcsc::Collective::all_reduce;
    };
    static constexpr std::uint64_t digest = 1;
    static constexpr std::uint32_t abi = 1, least_world = 2, most_world = 8;
    static constexpr pk::engine::Dim m{"M", "m", 1, 64, false}, n{"N", "n", 8, 256, false};
};

using Engine = pk::engine::Kernel<pk::engine::NetworkAllReduce<Program>>;
struct Handle final : Engine {
    using Engine::Engine;
};

// A whole number from -2 to 2.
int value(std::uint32_t call, std::uint32_t rank, std::uint32_t at) {
    std::uint32_t x = call;
    for (const std::uint32_t part : {rank, at}) x = (x ^ part) * 0x9e3779b1u ^ x >> 15;
    return static_cast<int>(x % 5) - 2;
}

void check_rank(const std::string& name, std::uint32_t world, std::uint32_t rank) {
    const auto options = testing::kernel_options(name, static_cast<int>(world), static_cast<int>(rank));
    const std::unique_ptr<Handle> kernel(Handle::create<Handle>(&options));
    std::vector<std::uint16_t> in(1 << 14), out(1 << 14);
    // Fewer pieces than threads; the third has no piece for some ranks. Rows of odd calls have gaps.
    const std::uint32_t sizes[][2] = {{5, 48}, {40, 240}, {1, 8}};
    for (std::uint32_t call = 0; call < 12; ++call) {
        const std::uint32_t m = sizes[call / 2 % 3][0], n = sizes[call / 2 % 3][1];
        const std::uint32_t stride = call % 2 == 0 ? n : n + 16;
        auto& result = call % 4 == 3 ? in : out;
        for (std::uint32_t at = 0; at < m * stride; ++at) {
            in[at] = pk::tile::to_bf16(static_cast<float>(value(call, rank, at))).bits;
            out[at] = 0x7fff;
        }
        pk::engine::Call given;
        given.m = m;
        given.n = n;
        given.rows = {"x", in.data(), stride};
        given.output = {"y", result.data(), stride};
        kernel->run(given, nullptr);
        kernel->wait();
        for (std::uint32_t at = 0; at < m * stride; ++at) {
            if (at % stride >= n) continue;
            int want = 0;
            for (std::uint32_t r = 0; r < world; ++r) want += value(call, r, at);
            const float got = pk::tile::to_float(pk::tile::bf16{result[at]});
            testing::require(got == static_cast<float>(want),
                             "call " + std::to_string(call) + " element " + std::to_string(at) + ": " +
                                 std::to_string(got) + ", expected " + std::to_string(want));
        }
    }
}

bool check(std::uint32_t world) {
    const std::string name = "network-" + std::to_string(::getpid());
    const testing::Errors errors = testing::as_threads(static_cast<int>(world), [&](int rank) {
        check_rank(name, world, static_cast<std::uint32_t>(rank));
    });
    const std::string error = testing::first_error(errors);
    std::printf("%s %u ranks %s\n", error.empty() ? "PASS" : "FAIL", world, error.c_str());
    return error.empty();
}

}  // namespace

int main() {
    bool all = true;
    for (const std::uint32_t world : {2u, 3u}) all = check(world) && all;
    return all ? 0 : 1;
}
