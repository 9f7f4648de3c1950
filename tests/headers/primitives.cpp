// The primitives' host twins, with ranks that are threads; and how 16-bit elements round.
#include <cmath>
#include <string>
#include <vector>

#include "cases/bootstrap_memory.hpp"
#include "cases/primitives.hpp"
#include "pk/bootstrap/multicast_memory.hpp"
#include "pk/lcsc/moves.hpp"
#include "pk/primitives/network_reduce.hpp"

namespace {

void ranks_case(testing::Suite& suite, int world) {
    const std::string name = testing::fresh_name();
    const testing::Errors errors = testing::as_threads(world, [&](int rank) {
        const auto exchange = testing::meet(name, rank, world);
        const testing::Places places{static_cast<std::uint32_t>(world)};
        const pk::bootstrap::PeerMemory memory(*exchange, places.bytes(), -1);
        testing::PeerTensor<char> tensor{
            static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(world), {}};
        for (int r = 0; r < world; ++r) tensor.at[r] = memory.at(r);
        alignas(16) char buffer[testing::tile_bytes];
        testing::RankOf mine{tensor, places, 0, 1, buffer};
        mine.run();
        testing::require(mine.errors == 0, std::to_string(mine.errors) + " values are wrong");
    });
    suite.check("primitives of " + std::to_string(world) + " ranks", testing::first_error(errors).empty(),
                testing::first_error(errors));
}

// all_reduce_in_network: the sum of shares of unequal sizes, of numbers that round; nothing around is
// touched.
template <class Type>
void network_case(testing::Suite& suite, int world, std::uint32_t threads) {
    constexpr std::uint32_t pieces = 37, margin = 8, all = pieces * 8 + 2 * margin;
    const auto value = [](int rank, std::uint32_t i) {
        return std::ldexp(static_cast<float>((rank * 71 + i * 29) % 255) - 127.0f,
                          static_cast<int>(i % 5) - 2);
    };
    const std::string name = testing::fresh_name();
    const testing::Errors errors = testing::as_threads(world, [&](int rank) {
        const auto exchange = testing::meet(name, rank, world);
        const pk::bootstrap::MulticastMemory memory(*exchange, 4096, -1);
        auto* in = reinterpret_cast<std::uint16_t*>(memory.mine());
        auto* out = in + all;
        const auto bits = [](float v) {
            return static_cast<std::uint16_t>(pk::tile::Element<Type>::pack(v, 0));
        };
        for (std::uint32_t i = 0; i < all; ++i) {
            in[i] = bits(value(rank, i));
            out[i] = 0x7fff;
        }
        exchange->barrier();
        const auto shards = pk::lcsc::deal_pieces(pieces, static_cast<std::uint32_t>(world));
        const auto me = static_cast<std::uint32_t>(rank);
        for (std::uint32_t thread = 0; thread < threads; ++thread) {
            pk::all_reduce_in_network<Type>(memory.everywhere((all + margin) * 2),
                                            memory.everywhere(margin * 2), shards.begin(me) * 16,
                                            shards.count(me) * 16, thread, threads);
        }
        exchange->barrier();
        for (std::uint32_t i = 0; i < all; ++i) {
            float sum = 0;
            for (int r = 0; r < world; ++r) sum += value(r, i);
            const bool inside = i >= margin && i < all - margin;
            testing::require(out[i] == (inside ? bits(sum) : 0x7fff), "element " + std::to_string(i));
        }
    });
    suite.check("in the network, " + std::to_string(world) + " ranks of " + std::to_string(threads),
                testing::first_error(errors).empty(), testing::first_error(errors));
}

void wait_case(testing::Suite& suite) {
    const std::uint32_t flag = 6;
    const pk::Waited waited = pk::wait(&flag, 7, 20'000'000, 3);
    suite.check("a wait gives up and says what it saw",
                !waited.reached && waited.rank == 3 && waited.expected == 7 && waited.seen == 6);
    const std::uint32_t wrapped = 1;
    suite.check("epochs wrap around", pk::wait(&wrapped, 0xffffffffu, 1, 0).reached);
}

// Every half precision number comes back, and what lies between two goes to the nearer, the even one of two.
void f16_case(testing::Suite& suite) {
    using pk::tile::f16;
    testing::Worst worst;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
        const float value = pk::tile::to_float(f16{static_cast<std::uint16_t>(bits)});
        const std::uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
        if (exponent == 31 && fraction != 0) {
            worst.same(std::isnan(value) && std::isnan(pk::tile::to_float(pk::tile::to_f16(value))), bits);
            continue;
        }
        worst.same(pk::tile::to_f16(value).bits == bits, bits);
        if (exponent == 31) continue;
        const double expected = std::ldexp(exponent == 0 ? fraction : 1024 + fraction,
                                           static_cast<int>(exponent == 0 ? 1 : exponent) - 25);
        worst.add(value, (bits & 0x8000) != 0 ? -expected : expected, 0, bits);
        const std::uint32_t up = bits + 1;
        if ((up & 0x7fff) > 0x7bff) continue;
        const float next = pk::tile::to_float(f16{static_cast<std::uint16_t>(up)});
        const float middle = value + (next - value) / 2;
        worst.same(pk::tile::to_f16(middle).bits == (bits % 2 == 0 ? bits : up), bits);
        worst.same(pk::tile::to_f16(std::nextafter(middle, value)).bits == bits, bits);
        worst.same(pk::tile::to_f16(std::nextafter(middle, next)).bits == up, bits);
    }
    worst.same(pk::tile::to_f16(65519.0f).bits == 0x7bff, 65519);
    worst.same(pk::tile::to_f16(65520.0f).bits == 0x7c00, 65520);
    worst.same(pk::tile::to_f16(-1e30f).bits == 0xfc00, 0);
    suite.check("f16", worst.good(), worst.detail());
}

}  // namespace

int main() {
    testing::Suite suite;
    for (const int world : {1, 2, 3, 8}) ranks_case(suite, world);
    for (const int world : {2, 3, 8}) {
        for (const std::uint32_t threads : {1u, 3u}) network_case<pk::tile::bf16>(suite, world, threads);
        network_case<pk::tile::f16>(suite, world, 2);
    }
    wait_case(suite);
    f16_case(suite);
    return suite.finish();
}
