// linear, swiglu and logits against sums in double.
#pragma once

#include "mpk/tasks/linear.hpp"
#include "mpk/tasks/logits.hpp"
#include "mpk/tasks/swiglu.hpp"
#include "support/fixture.hpp"
#include "support/suite.hpp"

namespace testing {

template <int N, int K, bool Bias, bool Residual>
struct LinearVariant {
    static constexpr int n = N, k = K;
    static constexpr bool has_bias = Bias, has_residual = Residual;
    struct slot {
        static constexpr int x = 0, weight = 1, out = 2, bias = 3, residual = Bias ? 4 : 3;
    };
};

// Rounding of an fp32 sum of k products: far below what a wrong element would do.
inline double sum_tolerance(double magnitude) {
    return 4e-6 * magnitude + 1e-6;
}

struct Dot {
    double value = 0, magnitude = 0;
};

inline Dot dot(Matrix<pk::tile::bf16>& a, std::uint32_t row_a, Matrix<pk::tile::bf16>& b,
               std::uint32_t row_b) {
    Dot result;
    for (std::uint32_t k = 0; k < a.cols; ++k) {
        const double product = a.value(row_a, k) * b.value(row_b, k);
        result.value += product;
        result.magnitude += std::fabs(product);
    }
    return result;
}

template <int N, int K, bool Bias, bool Residual>
void linear_case(Suite& suite, std::uint32_t rows, Range range, bool in_place = false) {
    using V = LinearVariant<N, K, Bias, Residual>;
    using pk::tile::bf16;
    Fixture fixture(1, 64, 128);
    Matrix<bf16> x(64, K), weight(N, K), bias(1, N);
    Matrix<float> out(64, N), residual(64, N);
    const std::vector<float> before = residual.array.values();
    Matrix<float>& target = in_place ? residual : out;
    out.spoil();
    fixture.set_row_count(rows);
    const auto run = [&] {
        auto& r = residual.array;
        if constexpr (Bias) {
            fixture.run<mpk::tasks::Linear<V>>(
                task_over(range.begin, range.end),
                {x.array.data(), weight.array.data(), target.array.data(), bias.array.data(), r.data()});
        } else {
            fixture.run<mpk::tasks::Linear<V>>(
                task_over(range.begin, range.end),
                {x.array.data(), weight.array.data(), target.array.data(), r.data()});
        }
    };
    run();

    Worst worst;
    for (std::uint32_t r = 0; r < 64; ++r) {
        for (std::uint32_t c = 0; c < N; ++c) {
            const std::uint64_t at = std::uint64_t{r} * target.stride + c;
            if (r >= rows || c < range.begin || c >= range.end) {
                worst.same(in_place ? same_bits(target.at(r, c), before[at]) : is_poison(target.at(r, c)),
                           at);
                continue;
            }
            const Dot d = dot(x, r, weight, c);
            const double added = (Bias ? bias.value(0, c) : 0) + (Residual ? widen(before[at]) : 0);
            worst.add(target.value(r, c), d.value + added, sum_tolerance(d.magnitude + std::fabs(added)), at);
        }
    }
    worst.same(target.padding_intact(), 0);

    // Each row alone gives the same bits.
    const std::vector<float> together = target.array.values();
    const std::vector<bf16> all_x = x.array.values();
    fixture.set_row_count(1);
    for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t k = 0; k < K; ++k) x.at(0, k) = all_x[std::size_t{r} * x.stride + k];
        std::vector<float> first = before;
        for (std::uint32_t c = 0; c < N; ++c) first[c] = before[std::size_t{r} * residual.stride + c];
        residual.array.assign(first);
        run();
        for (std::uint32_t c = range.begin; c < range.end; ++c) {
            worst.same(same_bits(target.at(0, c), together[std::size_t{r} * target.stride + c]), c);
        }
    }
    suite.check("linear n=" + std::to_string(N) + " k=" + std::to_string(K) +
                    " bias=" + std::to_string(Bias) + " residual=" + std::to_string(Residual) +
                    (in_place ? " in place" : "") + " rows=" + std::to_string(rows) + " [" +
                    std::to_string(range.begin) + ", " + std::to_string(range.end) + ")",
                worst.good(), worst.detail());
}

template <int N, int K>
struct SwiGluVariant {
    static constexpr int n = N, k = K;
    struct slot {
        static constexpr int x = 0, gate = 1, up = 2, out = 3;
    };
};

template <int N, int K>
void swiglu_case(Suite& suite, std::uint32_t rows, Range range) {
    using V = SwiGluVariant<N, K>;
    using pk::tile::bf16;
    Fixture fixture(1, 64, 128);
    const double deviation = 1 / std::sqrt(static_cast<double>(K));
    Matrix<bf16> x(64, K), gate(N, K, 2 * deviation), up(N, K, deviation), out(64, N);
    out.spoil();
    const auto run = [&] {
        fixture.run<mpk::tasks::SwiGlu<V>>(
            task_over(range.begin, range.end),
            {x.array.data(), gate.array.data(), up.array.data(), out.array.data()});
    };
    fixture.set_row_count(rows);
    run();
    Worst worst;
    for (std::uint32_t r = 0; r < 64; ++r) {
        for (std::uint32_t c = 0; c < N; ++c) {
            const std::uint64_t at = std::uint64_t{r} * out.stride + c;
            if (r >= rows || c < range.begin || c >= range.end) {
                worst.same(is_poison(out.at(r, c)), at);
                continue;
            }
            const double g = dot(x, r, gate, c).value, u = dot(x, r, up, c).value;
            const double reference = g / (1 + std::exp(-g)) * u;
            worst.add(out.value(r, c), reference, bf16_tolerance(reference) + 1e-5, at);
        }
    }
    worst.same(out.padding_intact(), 0);

    const std::vector<bf16> together = out.array.values(), all_x = x.array.values();
    fixture.set_row_count(1);
    for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t k = 0; k < K; ++k) x.at(0, k) = all_x[std::size_t{r} * x.stride + k];
        run();
        for (std::uint32_t c = range.begin; c < range.end; ++c) {
            worst.same(same_bits(out.at(0, c), together[std::size_t{r} * out.stride + c]), c);
        }
    }
    suite.check("swiglu n=" + std::to_string(N) + " k=" + std::to_string(K) +
                    " rows=" + std::to_string(rows) + " [" + std::to_string(range.begin) + ", " +
                    std::to_string(range.end) + ")",
                worst.good(), worst.detail());
}

template <int N, int K>
struct LogitsVariant {
    static constexpr int n = N, k = K;
    struct slot {
        static constexpr int x = 0, weight = 1, out = 2;
    };
};

template <int N, int K>
void logits_case(Suite& suite, std::uint32_t batch, Range range) {
    using V = LogitsVariant<N, K>;
    Fixture fixture(batch, 2 * batch, 128);
    Matrix<pk::tile::bf16> x(2 * batch, K), weight(N, K);
    Matrix<float> out(batch, N);
    out.spoil();
    // Sequences with two rows, one row, and none; the last kind samples nothing.
    std::vector<Row> rows;
    for (std::uint32_t s = 0; s < batch; ++s) {
        for (std::uint32_t i = 0; i < 2 - s % 3; ++i) rows.push_back({s, i});
    }
    fixture.set_rows(rows);
    fixture.run<mpk::tasks::Logits<V>>(task_over(range.begin, range.end),
                                       {x.array.data(), weight.array.data(), out.array.data()});
    Worst worst;
    for (std::uint32_t s = 0; s < batch; ++s) {
        for (std::uint32_t c = 0; c < N; ++c) {
            const std::int32_t row = fixture.sample_row[s];
            if (row < 0 || c < range.begin || c >= range.end) {
                worst.same(is_poison(out.at(s, c)), c);
                continue;
            }
            const Dot d = dot(x, static_cast<std::uint32_t>(row), weight, c);
            worst.add(out.value(s, c), d.value, sum_tolerance(d.magnitude), c);
        }
    }
    worst.same(out.padding_intact(), 0);
    suite.check(
        "logits n=" + std::to_string(N) + " k=" + std::to_string(K) + " batch=" + std::to_string(batch),
        worst.good(), worst.detail());
}

inline void linear_cases(Suite& suite) {
    for (std::uint32_t rows : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 16u, 17u, 33u}) {
        linear_case<70, 40, false, false>(suite, rows, {0, 70});
        linear_case<70, 40, true, true>(suite, rows, {3, 41});
    }
    for (std::uint32_t width : {1u, 5u, 8u, 11u, 16u, 23u, 32u, 37u}) {
        linear_case<96, 576, true, false>(suite, 1, {6, 6 + width});
        linear_case<96, 576, false, true>(suite, 5, {6, 6 + width}, true);
    }
    linear_case<40, 2048, false, true>(suite, 16, {0, 40}, true);
    linear_case<9, 8, true, true>(suite, 2, {0, 9});
    for (std::uint32_t rows : {1u, 3u, 16u, 21u}) {
        swiglu_case<52, 96>(suite, rows, {0, 52});
        swiglu_case<52, 1000>(suite, rows, {5, 30});
        swiglu_case<8, 32>(suite, rows, {7, 8});
    }
    logits_case<301, 64>(suite, 1, {0, 301});
    logits_case<301, 72>(suite, 16, {17, 300});
    logits_case<40, 64>(suite, 150, {0, 40});
}

}  // namespace testing
