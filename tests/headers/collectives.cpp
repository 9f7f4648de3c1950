// The host twins of the collectives over ranks that are threads, in memory that they have shown each other:
// call after call, each with another input in the same place. With PK_DROP they lack one operation.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "pk/engine/collective.hpp"
#include "pk/engine/kernel.hpp"
#include "support/kernel_options.hpp"
#include "support/ranks.hpp"

namespace {

using pk::engine::Dim;
using What = pk::lcsc::Collective;

constexpr bool swaps(What what) {
    return what == What::to_columns || what == What::to_rows;
}

template <What Does>
struct Program {
    struct Config {
        using Type = pk::lcsc::Bf16;
        static constexpr What collective = Does;
    };
    static constexpr std::uint64_t digest = 1;
    static constexpr std::uint32_t abi = 1, least_world = 1, most_world = 8;
    static constexpr Dim m{"M", "m", 1, 1024, false}, n{"N", "n", 8, 512, swaps(Does)};
};

template <What Does>
struct Handle final : pk::engine::Kernel<pk::engine::Collective<Program<Does>>> {
    using pk::engine::Kernel<pk::engine::Collective<Program<Does>>>::Kernel;
};

// A whole number from -2 to 2; of a tensor of which ranks have parts, `rank` is 0.
int value(std::uint32_t call, std::uint32_t rank, std::uint32_t row, std::uint32_t column) {
    std::uint32_t x = call;
    for (const std::uint32_t part : {rank, row, column}) x = (x ^ part) * 0x9e3779b1u ^ x >> 15;
    return static_cast<int>(x % 5) - 2;
}

// A rank's part of the tensor.
struct Part {
    std::uint32_t first_row, rows, first_column, columns;
};

Part rows_of(std::uint32_t m, std::uint32_t n, std::uint32_t world, std::uint32_t rank) {
    const auto shards = pk::lcsc::deal_pieces(m, world);
    return {static_cast<std::uint32_t>(shards.begin(rank)), static_cast<std::uint32_t>(shards.count(rank)), 0,
            n};
}
Part columns_of(std::uint32_t m, std::uint32_t n, std::uint32_t world, std::uint32_t rank) {
    return {0, m, n / world * rank, n / world};
}

template <What Does>
int expected(std::uint32_t call, std::uint32_t world, std::uint32_t row, std::uint32_t column) {
    if (!pk::lcsc::sums(Does)) return value(call, 0, row, column);
    int sum = 0;
    for (std::uint32_t r = 0; r < world; ++r) sum += value(call, r, row, column);
    return sum;
}

template <What Does>
void check_rank(const std::string& name, std::uint32_t world, std::uint32_t rank) {
    const auto options = testing::kernel_options(name, static_cast<int>(world), static_cast<int>(rank));
    const std::unique_ptr<Handle<Does>> kernel(Handle<Does>::template create<Handle<Does>>(&options));
    std::vector<std::uint16_t> in(1 << 15), out(1 << 15);
    kernel->share(in.data(), in.size() * 2);
    kernel->share(out.data(), out.size() * 2);
    // The second is too large for one shot; the third has no rows for some ranks.
    const std::uint32_t sizes[][2] = {{5, 48}, {40, 240}, {1, 96}};
    for (std::uint32_t call = 0; call < 12; ++call) {
        const std::uint32_t m = sizes[call / 2 % 3][0], n = sizes[call / 2 % 3][1];
        const Part own = rows_of(m, n, world, rank), all{0, m, 0, n}, columns = columns_of(m, n, world, rank);
        const Part read = Does == What::to_rows ? columns : pk::lcsc::sums(Does) ? all : own;
        const Part written = Does == What::to_columns                         ? columns
                             : Does == What::scatter || Does == What::to_rows ? own
                                                                              : all;
        for (std::uint32_t r = 0; r < read.rows; ++r) {
            for (std::uint32_t c = 0; c < read.columns; ++c) {
                const int v =
                    value(call, pk::lcsc::sums(Does) ? rank : 0, read.first_row + r, read.first_column + c);
                in[r * read.columns + c] = pk::tile::to_bf16(static_cast<float>(v)).bits;
            }
        }
        for (std::uint32_t i = 0; i < written.rows * written.columns; ++i) out[i] = 0x7fff;
        pk::engine::Call given;
        given.m = m;
        given.n = n;
        given.rows = {"x", in.data(), 0};
        given.output = {"y", out.data(), 0};
        kernel->run(given, nullptr);
        kernel->wait();
        for (std::uint32_t r = 0; r < written.rows; ++r) {
            for (std::uint32_t c = 0; c < written.columns; ++c) {
                const float got = pk::tile::to_float(pk::tile::bf16{out[r * written.columns + c]});
                const int want = expected<Does>(call, world, written.first_row + r, written.first_column + c);
                testing::require(got == static_cast<float>(want),
                                 "call " + std::to_string(call) + " row " + std::to_string(r) + " column " +
                                     std::to_string(c) + ": " + std::to_string(got) + ", expected " +
                                     std::to_string(want));
            }
        }
    }
}

template <What Does>
bool check(const char* what, std::uint32_t world) {
    const std::string name = std::string("collective-") + what + "-" + std::to_string(::getpid());
    const testing::Errors errors = testing::as_threads(static_cast<int>(world), [&](int rank) {
        check_rank<Does>(name, world, static_cast<std::uint32_t>(rank));
    });
    const std::string error = testing::first_error(errors);
    std::printf("%s %s, %u ranks %s\n", error.empty() ? "PASS" : "FAIL", what, world, error.c_str());
    return error.empty();
}

// Places that would not fit into 64 bits are refused, not folded over each other.
bool rooms() {
    using pk::engine::room_of;
    bool refused = false;
    try {
        room_of({1u << 31, 1u << 31, 2});
    } catch (const pk::engine::Error& error) {
        refused = error.status() == pk::engine::Status::out_of_memory;
    }
    const bool right = room_of({3, 5, 0}) == 0 && room_of({1u << 20, 1u << 20, 4}) == std::uint64_t{1} << 42;
    std::printf("%s rooms\n", refused && right ? "PASS" : "FAIL");
    return refused && right;
}

}  // namespace

int main() {
    bool all = rooms();
    for (const std::uint32_t world : {1u, 2u, 3u}) {
        all = check<What::gather>("gather", world) && all;
        all = check<What::scatter>("scatter", world) && all;
        all = check<What::all_reduce>("all-reduce", world) && all;
        all = check<What::to_columns>("to-columns", world) && all;
        all = check<What::to_rows>("to-rows", world) && all;
    }
    return all ? 0 : 1;
}
