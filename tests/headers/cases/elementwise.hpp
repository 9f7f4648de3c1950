// embedding, rmsnorm, silu_mul and add against double.
#pragma once

#include "mpk/tasks/add.hpp"
#include "mpk/tasks/embedding.hpp"
#include "mpk/tasks/empty.hpp"
#include "mpk/tasks/rmsnorm.hpp"
#include "mpk/tasks/silu_mul.hpp"
#include "support/fixture.hpp"
#include "support/suite.hpp"

namespace testing {

inline constexpr std::uint32_t plan_rows = 9;

// Calls reference(row, col) for what a task over `range` should have written and checks that the rest is
// untouched.
template <class T, class Reference>
void compare_rows(Suite& suite, const std::string& name, Matrix<T>& out, Range range, std::uint32_t rows,
                  Reference reference) {
    Worst worst;
    for (std::uint32_t r = 0; r < out.rows; ++r) {
        for (std::uint32_t c = 0; c < out.cols; ++c) {
            if (r < range.begin || r >= range.end || r >= rows) {
                worst.same(is_poison(out.at(r, c)), r);
                continue;
            }
            const double expected = reference(r, c);
            const double rounding =
                std::is_same_v<T, float> ? std::fabs(expected) * 1e-6 : bf16_tolerance(expected);
            worst.add(out.value(r, c), expected, rounding + 1e-6, std::uint64_t{r} * out.stride + c);
        }
    }
    worst.same(out.padding_intact(), 0);
    suite.check(name + " n=" + std::to_string(out.cols) + " rows=" + std::to_string(rows) + " [" +
                    std::to_string(range.begin) + ", " + std::to_string(range.end) + ")",
                worst.good(), worst.detail());
}

template <int N>
struct RowVariant {
    static constexpr int n = N, hidden = N;
    static constexpr double eps = 1e-5;
    struct slot {
        static constexpr int x = 0, weight = 1, out = 2;      // rmsnorm
        static constexpr int tokens = 0, table = 1;           // embedding
        static constexpr int gate = 0, up = 1, a = 0, b = 1;  // silu_mul, add
    };
};

template <int N>
void row_cases(Suite& suite, Range range, std::uint32_t rows) {
    using V = RowVariant<N>;
    using pk::tile::bf16;
    Fixture fixture(1, plan_rows, 128);
    fixture.set_row_count(rows);
    Matrix<float> a(plan_rows, N, 3), b(plan_rows, N), wide(plan_rows, N);
    Matrix<bf16> weight(1, N), table(50, N), thin(plan_rows, N);
    Array<std::int32_t> tokens(plan_rows);
    for (std::uint32_t r = 0; r < plan_rows; ++r) tokens[r] = static_cast<std::int32_t>(below(50));
    const mpk::Task task = task_over(range.begin, range.end);

    wide.spoil();
    fixture.run<mpk::tasks::Embedding<V>>(task, {tokens.data(), table.array.data(), wide.array.data()});
    compare_rows(suite, "embedding", wide, range, rows, [&](std::uint32_t r, std::uint32_t c) {
        return table.value(static_cast<std::uint32_t>(tokens[r]), c);
    });

    wide.spoil();
    fixture.run<mpk::tasks::Add<V>>(task, {a.array.data(), b.array.data(), wide.array.data()});
    compare_rows(suite, "add", wide, range, rows,
                 [&](std::uint32_t r, std::uint32_t c) { return a.value(r, c) + b.value(r, c); });

    thin.spoil();
    fixture.run<mpk::tasks::SiluMul<V>>(task, {a.array.data(), b.array.data(), thin.array.data()});
    compare_rows(suite, "silu_mul", thin, range, rows, [&](std::uint32_t r, std::uint32_t c) {
        return a.value(r, c) / (1 + std::exp(-a.value(r, c))) * b.value(r, c);
    });

    thin.spoil();
    fixture.run<mpk::tasks::RmsNorm<V>>(task, {a.array.data(), weight.array.data(), thin.array.data()});
    compare_rows(suite, "rmsnorm", thin, range, rows, [&](std::uint32_t r, std::uint32_t c) {
        double squares = 0;
        for (std::uint32_t i = 0; i < N; ++i) squares += a.value(r, i) * a.value(r, i);
        return a.value(r, c) / std::sqrt(squares / N + V::eps) * weight.value(0, c);
    });
}

// Large arguments must not overflow on the way: silu(-200) is 0, silu(200) is 200.
inline void silu_extremes(Suite& suite) {
    using V = RowVariant<6>;
    Fixture fixture(1, 1, 8);
    fixture.set_row_count(1);
    Matrix<float> gate(1, 6), up(1, 6);
    Matrix<pk::tile::bf16> out(1, 6);
    const double gates[6] = {-200, -88, -1e30, 0, 200, 1e30};
    for (std::uint32_t c = 0; c < 6; ++c) {
        gate.set(0, c, gates[c]);
        up.set(0, c, 1);
    }
    fixture.run<mpk::tasks::SiluMul<V>>(task_over(0, 1),
                                        {gate.array.data(), up.array.data(), out.array.data()});
    Worst worst;
    for (std::uint32_t c = 0; c < 6; ++c) {
        const double reference = gates[c] > 0 ? gates[c] : 0;
        worst.add(out.value(0, c), reference, bf16_tolerance(reference) + 1e-30, c);
    }
    suite.check("silu of large arguments", worst.good(), worst.detail());
}

inline void elementwise_cases(Suite& suite) {
    row_cases<576>(suite, {0, plan_rows}, plan_rows);
    row_cases<70>(suite, {2, 7}, 5);
    row_cases<8>(suite, {3, 4}, 3);
    row_cases<1000>(suite, {0, 1}, 1);
    silu_extremes(suite);
}

}  // namespace testing
