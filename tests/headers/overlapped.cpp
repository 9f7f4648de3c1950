// The overlapped kernel's host twin over ranks that are threads: runs one after the other, with data and
// sizes of their own, must all come out exactly. With PK_DROP it lacks one operation of its protocol.
// The argument says who communicates: intra_sm or inter_sm.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "pk/engine/kernel.hpp"
#include "pk/engine/product.hpp"
#include "support/kernel_options.hpp"
#include "support/ranks.hpp"

namespace {

using pk::engine::Dim;
using pk::lcsc::Reduce;

// copies: gathers by the copy engine; mixed: only large shards, so that calls of both ways follow each other.
enum class Kind { gather, copies, mixed, scatter, all };

constexpr bool gathers(Kind what) {
    return what == Kind::gather || what == Kind::copies || what == Kind::mixed;
}

template <Kind What, class PartialType, std::uint32_t CommSms>
struct Program {
    struct Config {
        using Type = pk::lcsc::Bf16;
        using Partial = PartialType;
        static constexpr std::uint32_t tile_m = 128, tile_n = 256, tile_k = 64, stages = 4, group = 2,
                                       pace = 0, comm_sms = CommSms;
        static constexpr bool gather = gathers(What), by_tma = false, bias = false, residual = false,
                              silu_mul = false, keep_rows = What == Kind::mixed;
        static constexpr std::uint64_t copies_from = What == Kind::copies  ? pk::lcsc::copies_always
                                                     : What == Kind::mixed ? 4000
                                                                           : pk::lcsc::copies_never;
        static constexpr auto reduce = gathers(What)           ? Reduce::none
                                       : What == Kind::scatter ? Reduce::scatter
                                                               : Reduce::all;
    };
    static constexpr std::uint64_t digest = 1;
    static constexpr std::uint32_t abi = 1, least_world = 1, most_world = 8;
    static constexpr Dim m{"M", "m", 1, 2048, false}, n{"N", "n", 8, 512, false}, k{"K", "k", 8, 264, false};
};

template <std::uint32_t CommSms>
using Config = Program<Kind::all, float, CommSms>::Config;

// SMs that only communicate: as many as asked for, but no more than half, in whole clusters.
static_assert(pk::lcsc::communicating<Config<0>>(132, 2) == 0 && pk::lcsc::agents<Config<0>>(132) == 132);
static_assert(pk::lcsc::communicating<Config<16>>(132, 2) == 16 && pk::lcsc::agents<Config<16>>(132) == 64);
static_assert(pk::lcsc::communicating<Config<66>>(132, 2) == 66);
static_assert(pk::lcsc::communicating<Config<16>>(30, 2) == 14);
static_assert(pk::lcsc::communicating<Config<16>>(4, 2) == 2 && pk::lcsc::least_sms<Config<16>>(2) == 4);
static_assert(pk::lcsc::communicating<Config<16>>(3, 1) == 1 && pk::lcsc::least_sms<Config<16>>(1) == 2);

// A count of a call is past all counts of the calls before it, also where epochs wrap around.
using pk::lcsc::tally;
static_assert(pk::lcsc::reached(tally(7, 3), tally(7, 3)) && !pk::lcsc::reached(tally(7, 2), tally(7, 3)));
static_assert(!pk::lcsc::reached(tally(6, 9), tally(7, 1)) && pk::lcsc::reached(tally(7, 1), tally(6, 9)));
static_assert(!pk::lcsc::reached(tally(~0u, 9), tally(0, 1)) &&
              pk::lcsc::reached(tally(0, 1), tally(~0u, 9)));
static_assert(pk::lcsc::tiles_seen(tally(6, 9), tally(7, 1)) == 0);
static_assert(pk::lcsc::tiles_seen(tally(7, 2), tally(7, 5)) == 2);

template <class P>
struct Handle final : pk::engine::Kernel<pk::engine::Product<P>> {
    using pk::engine::Kernel<pk::engine::Product<P>>::Kernel;
};

// A whole number from -2 to 2 that depends on everything.
int value(std::uint32_t run, std::uint32_t rank, std::uint32_t what, std::uint32_t row,
          std::uint32_t column) {
    std::uint32_t x = run;
    for (const std::uint32_t part : {rank, what, row, column}) x = (x ^ part) * 0x9e3779b1u ^ x >> 15;
    return static_cast<int>(x % 5) - 2;
}

using Matrix = std::vector<std::uint16_t>;

Matrix matrix(std::uint32_t run, std::uint32_t rank, std::uint32_t what, std::uint32_t first,
              std::uint32_t rows, std::uint32_t columns) {
    Matrix made(std::size_t{rows} * columns + 8);
    for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t c = 0; c < columns; ++c) {
            made[std::size_t{r} * columns + c] =
                pk::tile::to_bf16(static_cast<float>(value(run, rank, what, first + r, c))).bits;
        }
    }
    return made;
}

struct Size {
    std::uint32_t m, n, k;
};

struct Run {
    Size size;
    std::uint32_t first, rows;  // of the output, of this rank
    Matrix a, b, out, full;
};

// An element of the output.
template <Kind What>
int expected(std::uint32_t run, int world, int rank, const Size& size, std::uint32_t row,
             std::uint32_t column) {
    const std::uint32_t owner = row / pk::lcsc::deal_rows(size.m, static_cast<std::uint32_t>(world)).each;
    int sum = 0;
    for (int source = 0; source < world; ++source) {
        const auto from = static_cast<std::uint32_t>(source);
        if (gathers(What) && from != owner) continue;
        const std::uint32_t weight = gathers(What) ? static_cast<std::uint32_t>(rank) : from;
        for (std::uint32_t k = 0; k < size.k; ++k) {
            sum += value(run, from, 0, row, k) * value(run, weight, 1, column, k);
        }
    }
    return sum;
}

template <Kind What>
Run make_run(std::uint32_t number, int world, int rank, const Size& size) {
    const pk::lcsc::Shards shards = pk::lcsc::deal_rows(size.m, static_cast<std::uint32_t>(world));
    const auto r = static_cast<std::uint32_t>(rank);
    const std::uint32_t first = shards.begin(r), own = shards.count(r);
    const bool part = What == Kind::scatter;
    Run run{size, part ? first : 0, part ? own : size.m, {}, {}, {}, {}};
    run.a =
        gathers(What) ? matrix(number, r, 0, first, own, size.k) : matrix(number, r, 0, 0, size.m, size.k);
    run.b = matrix(number, r, 1, 0, size.n, size.k);
    run.out.assign(std::size_t{run.rows} * size.n + 8, 0x7fff);
    run.full.assign(std::size_t{size.m} * size.k + 8, 0x7fff);
    return run;
}

// The rows of all ranks.
void check_rows(std::uint32_t turn, int world, const Run& run) {
    const pk::lcsc::Shards shards = pk::lcsc::deal_rows(run.size.m, static_cast<std::uint32_t>(world));
    for (std::uint32_t r = 0; r < run.size.m; ++r) {
        for (std::uint32_t k = 0; k < run.size.k; ++k) {
            const float got = pk::tile::to_float(pk::tile::bf16{run.full[std::size_t{r} * run.size.k + k]});
            const int want = value(turn, r / shards.each, 0, r, k);
            testing::require(got == static_cast<float>(want),
                             "run " + std::to_string(turn) + " row " + std::to_string(r) + " of all ranks: " +
                                 std::to_string(got) + ", expected " + std::to_string(want));
        }
    }
}

template <Kind What, class Partial, std::uint32_t CommSms>
void check_rank(const std::string& name, int world, int rank, std::uint32_t sms) {
    using Kernel = Handle<Program<What, Partial, CommSms>>;
    testing::KernelOptions options = testing::kernel_options(name, world, rank);
    options.sms = sms;
    const std::unique_ptr<Kernel> kernel(Kernel::template create<Kernel>(&options));

    // One row belongs to one rank: the others get nothing that would keep them from running ahead. Long rows
    // are gathered in pieces, by several threads. Of high ones a thread stages more tiles than have room.
    const Size sizes[] = {{1, 8, 8}, {1, 264, 16}, {290, 8, 16}, {256, 8, 264}, {2048, 8, 8}};
    constexpr std::uint32_t count = CommSms == 0 ? 4 : 5;
    std::vector<Run> runs;
    for (std::uint32_t turn = 0; turn < count * 4; ++turn) {
        runs.push_back(make_run<What>(turn, world, rank, sizes[turn / 2 % count]));
    }
    for (Run& run : runs) {
        pk::engine::Call call;
        call.m = run.size.m;
        call.n = run.size.n;
        call.k = run.size.k;
        call.rows = {"a", run.a.data(), 0};
        call.weight = {"b", run.b.data(), 0};
        call.output = {"c", run.out.data(), 0};
        if (What == Kind::mixed) call.gathered = {"full", run.full.data(), 0};
        kernel->run(call, nullptr);
    }
    kernel->wait();
    for (std::uint32_t turn = 0; turn < runs.size(); ++turn) {
        const Run& run = runs[turn];
        if (What == Kind::mixed) check_rows(turn, world, run);
        for (std::uint32_t r = 0; r < run.rows; ++r) {
            for (std::uint32_t c = 0; c < run.size.n; ++c) {
                const float got =
                    pk::tile::to_float(pk::tile::bf16{run.out[std::size_t{r} * run.size.n + c]});
                const int want = expected<What>(turn, world, rank, run.size, run.first + r, c);
                testing::require(got == static_cast<float>(want),
                                 "run " + std::to_string(turn) + " row " + std::to_string(r) + " column " +
                                     std::to_string(c) + ": " + std::to_string(got) + ", expected " +
                                     std::to_string(want));
            }
        }
    }
}

template <Kind What, class Partial, std::uint32_t CommSms = 0>
bool check(const char* what, int world, std::uint32_t sms = 2) {
    const std::string name = std::string("overlapped-") + what + "-" + std::to_string(::getpid());
    const testing::Errors errors = testing::as_threads(
        world, [&](int rank) { check_rank<What, Partial, CommSms>(name, world, rank, sms); });
    const std::string error = testing::first_error(errors);
    std::printf("%s %s, %d ranks of %u threads %s\n", error.empty() ? "PASS" : "FAIL", what, world, sms,
                error.c_str());
    return error.empty();
}

bool check_intra_sm() {
    bool all = true;
    for (const int world : {1, 2, 3}) {
        all = check<Kind::gather, float>("gather", world) && all;
        all = check<Kind::copies, float>("gather-by-copies", world) && all;
        all = check<Kind::mixed, float>("gather-both-ways", world) && all;
        all = check<Kind::scatter, float>("scatter", world) && all;
        all = check<Kind::scatter, std::uint16_t>("rounded-scatter", world) && all;
        all = check<Kind::all, float>("all-reduce", world) && all;
    }
    return all;
}

// One thread cannot do both.
bool check_one_thread() {
    using Kernel = Handle<Program<Kind::scatter, float, 2>>;
    testing::KernelOptions options = testing::kernel_options("overlapped-alone", 1, 0);
    options.sms = 1;
    std::string error;
    try {
        delete Kernel::create<Kernel>(&options);
    } catch (const std::exception& caught) {
        error = caught.what();
    }
    const bool told = error == "rank 0: options.sms is 1, expected 0 (a part of the cores) or 2 to 1024";
    std::printf("%s one thread: %s\n", told ? "PASS" : "FAIL", error.c_str());
    return told;
}

// One thread that computes, and one agent; and three, of which an agent serves two.
bool check_inter_sm() {
    bool all = check_one_thread();
    for (const int world : {1, 2, 3}) {
        for (const std::uint32_t sms : {2, 5}) {
            all = check<Kind::gather, float, 2>("gather", world, sms) && all;
            all = check<Kind::scatter, float, 2>("scatter", world, sms) && all;
            all = check<Kind::all, float, 2>("all-reduce", world, sms) && all;
        }
        all = check<Kind::scatter, std::uint16_t, 2>("rounded-scatter", world, 5) && all;
    }
    return all;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string schedule = argc == 2 ? argv[1] : "";
    if (schedule == "intra_sm") return check_intra_sm() ? 0 : 1;
    if (schedule == "inter_sm") return check_inter_sm() ? 0 : 1;
    std::printf("expected intra_sm or inter_sm\n");
    return 2;
}
