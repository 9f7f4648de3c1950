// Attention over the paged cache against double: any head size, group and page, chunks and single rows.
#pragma once

#include "mpk/tasks/attention.hpp"
#include "support/fixture.hpp"
#include "support/suite.hpp"

namespace testing {

template <int Heads, int KvHeads, int Head, int Page, bool Norm, bool Rope, int Factor>
struct AttentionVariant {
    static constexpr int heads = Heads, kv_heads = KvHeads, head = Head, kv_page = Page;
    static constexpr double scale = 0.3, eps = 1e-6;
    static constexpr bool has_q_norm = Norm, has_k_norm = Norm, has_rope = Rope;
    static constexpr double rope_theta = 10000, rope_factor = Factor, rope_low_freq = 1, rope_high_freq = 4;
    static constexpr int rope_original_context = 256;
    struct slot {
        static constexpr int qkv = 0, out = 1, q_norm = 2, k_norm = 3;
    };
};

// The inverse frequencies as transformers computes them, in double.
template <class V>
double frequency(int i) {
    const double plain = std::pow(V::rope_theta, -2.0 * i / V::head);
    if (V::rope_factor == 1) return plain;
    const double wavelength = 2 * 3.14159265358979323846 / plain;
    const double low = V::rope_original_context / V::rope_low_freq,
                 high = V::rope_original_context / V::rope_high_freq;
    if (wavelength > low) return plain / V::rope_factor;
    if (wavelength < high) return plain;
    const double smooth =
        (V::rope_original_context / wavelength - V::rope_low_freq) / (V::rope_high_freq - V::rope_low_freq);
    return (1 - smooth) * plain / V::rope_factor + smooth * plain;
}

template <class V>
std::vector<double> rotated(const float* head, Matrix<pk::tile::bf16>& weight, std::uint32_t position) {
    std::vector<double> x(head, head + V::head);
    if (V::has_q_norm) {
        double squares = 0;
        for (double v : x) squares += v * v;
        for (int c = 0; c < V::head; ++c) x[c] *= weight.value(0, c) / std::sqrt(squares / V::head + V::eps);
    }
    if (!V::has_rope) return x;
    std::vector<double> y(V::head);
    for (int i = 0; i < V::head / 2; ++i) {
        const double angle = position * frequency<V>(i);
        y[i] = x[i] * std::cos(angle) - x[i + V::head / 2] * std::sin(angle);
        y[i + V::head / 2] = x[i + V::head / 2] * std::cos(angle) + x[i] * std::sin(angle);
    }
    return y;
}

// One machine with three sequences, of which sequence 1 has `rows` rows from position `past`.
template <class V>
class AttentionCase {
public:
    static constexpr std::uint32_t qkv_cols = (V::heads + 2 * V::kv_heads) * V::head;
    static constexpr std::uint32_t layers = 2, layer = 1, batch = 3, sequence = 1;

    AttentionCase(std::uint32_t past, std::uint32_t rows)
        : past_(past),
          rows_(rows),
          pages_of_sequence_((past + rows + V::kv_page - 1) / V::kv_page),
          fixture_(batch, rows + 2, past + rows),
          qkv_(rows + 2, qkv_cols),
          out_(rows + 2, V::heads * V::head),
          q_norm_(1, V::head),
          k_norm_(1, V::head),
          table_(batch * pages_of_sequence_),
          cache_(layers * table_.size() * 2 * V::kv_heads * V::kv_page * V::head) {
        // Pages in an order of their own.
        std::vector<std::uint32_t> pages(table_.size());
        for (std::uint32_t i = 0; i < pages.size(); ++i) pages[i] = i;
        std::shuffle(pages.begin(), pages.end(), generator());
        table_.assign(pages);
        for (std::size_t i = 0; i < cache_.size(); ++i) cache_[i] = narrow(normal());
        out_.spoil();
        fixture_.m.kv = {cache_.data(), table_.size(), table_.data(), pages_of_sequence_};
        before_ = cache_.values();
    }

    void run(Suite& suite) {
        std::vector<Row> rows = {{0, 0}};
        for (std::uint32_t r = 0; r < rows_; ++r) rows.push_back({sequence, past_ + r});
        rows.push_back({2, 0});
        fixture_.set_rows(rows);
        for (std::uint32_t h = 0; h < V::kv_heads; ++h) run_head(h);
        check_cache();
        check_output();
        worst_.same(out_.padding_intact(), 0);
        check_row_by_row();
        suite.check("attention heads=" + std::to_string(V::heads) + "/" + std::to_string(V::kv_heads) +
                        " head=" + std::to_string(V::head) + " page=" + std::to_string(V::kv_page) +
                        " norm=" + std::to_string(V::has_q_norm) + " rope=" + std::to_string(V::has_rope) +
                        " factor=" + std::to_string(static_cast<int>(V::rope_factor)) +
                        " past=" + std::to_string(past_) + " rows=" + std::to_string(rows_),
                    worst_.good(), worst_.detail());
    }

private:
    using bf16 = pk::tile::bf16;

    void run_head(std::uint32_t head) {
        fixture_.template run<mpk::tasks::Attention<V>>(
            task_over(sequence, sequence + 1, head),
            {qkv_.array.data(), out_.array.data(), q_norm_.array.data(), k_norm_.array.data()}, layer);
    }

    std::size_t cache_at(std::uint32_t kv, std::uint32_t head, std::uint32_t token, std::uint32_t channel) {
        const std::size_t page = table_[sequence * pages_of_sequence_ + token / V::kv_page];
        return ((((layer * table_.size() + page) * 2 + kv) * V::kv_heads + head) * V::kv_page +
                token % V::kv_page) *
                   V::head +
               channel;
    }

    const float* qkv_row(std::uint32_t row) { return &qkv_.at(row, 0); }

    // New keys and values are in their places and nothing else has changed.
    void check_cache() {
        std::vector<bool> is_new(cache_.size());
        for (std::uint32_t r = 0; r < rows_; ++r) {
            for (std::uint32_t h = 0; h < V::kv_heads; ++h) {
                const float* k = qkv_row(1 + r) + (V::heads + h) * V::head;
                const float* v = k + V::kv_heads * V::head;
                const auto key = rotated<V>(k, k_norm_, past_ + r);
                for (std::uint32_t c = 0; c < V::head; ++c) {
                    const std::size_t at_k = cache_at(0, h, past_ + r, c),
                                      at_v = cache_at(1, h, past_ + r, c);
                    is_new[at_k] = is_new[at_v] = true;
                    worst_.add(widen(cache_[at_k]), key[c], bf16_tolerance(key[c]) + 2e-3, at_k);
                    worst_.same(same_bits(cache_[at_v], narrow(v[c])), at_v);
                }
            }
        }
        for (std::size_t i = 0; i < cache_.size(); ++i) {
            if (!is_new[i]) worst_.same(same_bits(cache_[i], before_[i]), i);
        }
    }

    void check_output() {
        constexpr std::uint32_t group = V::heads / V::kv_heads;
        for (std::uint32_t r = 0; r < out_.rows; ++r) {
            if (r == 0 || r > rows_) {
                for (std::uint32_t c = 0; c < out_.cols; ++c) worst_.same(is_poison(out_.at(r, c)), r);
                continue;
            }
            const std::uint32_t position = past_ + r - 1;
            for (std::uint32_t h = 0; h < V::heads; ++h) {
                const auto query = rotated<V>(qkv_row(r) + h * V::head, q_norm_, position);
                std::vector<double> weight(position + 1), value(V::head);
                double most = -1e300, total = 0;
                for (std::uint32_t t = 0; t <= position; ++t) {
                    for (std::uint32_t c = 0; c < V::head; ++c) {
                        weight[t] += query[c] * V::scale * widen(cache_[cache_at(0, h / group, t, c)]);
                    }
                    most = std::max(most, weight[t]);
                }
                for (std::uint32_t t = 0; t <= position; ++t) {
                    weight[t] = std::exp(weight[t] - most);
                    total += weight[t];
                    for (std::uint32_t c = 0; c < V::head; ++c) {
                        value[c] += weight[t] * widen(cache_[cache_at(1, h / group, t, c)]);
                    }
                }
                for (std::uint32_t c = 0; c < V::head; ++c) {
                    const double reference = value[c] / total;
                    worst_.add(out_.value(r, h * V::head + c), reference, bf16_tolerance(reference) + 2e-3,
                               r);
                }
            }
        }
    }

    // The rows one step at a time give the same bits, in the output and in the cache.
    void check_row_by_row() {
        const std::vector<bf16> output = out_.array.values(), cache = cache_.values();
        const std::vector<float> qkv = qkv_.array.values();
        cache_.assign(before_);
        for (std::uint32_t r = 0; r < rows_; ++r) {
            fixture_.set_rows({{sequence, past_ + r}});
            for (std::uint32_t c = 0; c < qkv_cols; ++c)
                qkv_.at(0, c) = qkv[std::size_t{r + 1} * qkv_.stride + c];
            for (std::uint32_t h = 0; h < V::kv_heads; ++h) run_head(h);
            for (std::uint32_t c = 0; c < out_.cols; ++c) {
                worst_.same(same_bits(out_.at(0, c), output[std::size_t{r + 1} * out_.stride + c]), r);
            }
        }
        for (std::size_t i = 0; i < cache.size(); ++i) worst_.same(same_bits(cache[i], cache_[i]), i);
    }

    std::uint32_t past_, rows_, pages_of_sequence_;
    Fixture fixture_;
    Matrix<float> qkv_;
    Matrix<bf16> out_, q_norm_, k_norm_;
    Array<std::uint32_t> table_;
    Array<bf16> cache_;
    std::vector<bf16> before_;
    Worst worst_;
};

template <int Heads, int KvHeads, int Head, int Page, bool Norm = false, bool Rope = true, int Factor = 1>
void attention_case(Suite& suite, std::uint32_t past, std::uint32_t rows) {
    AttentionCase<AttentionVariant<Heads, KvHeads, Head, Page, Norm, Rope, Factor>>(past, rows).run(suite);
}

// A sequence without rows is not active, and its task does nothing.
inline void idle_attention(Suite& suite) {
    using V = AttentionVariant<2, 1, 8, 8, false, true, 1>;
    Fixture fixture(2, 2, 8);
    fixture.set_rows({{0, 0}});
    Matrix<float> qkv(2, 32);
    Matrix<pk::tile::bf16> out(2, 16);
    Array<pk::tile::bf16> cache(1024, poison_bf16);
    Array<std::uint32_t> table(2);
    out.spoil();
    fixture.m.kv = {cache.data(), 2, table.data(), 1};
    fixture.run<mpk::tasks::Attention<V>>(task_over(1, 2), {qkv.array.data(), out.array.data()}, 0);
    Worst worst;
    for (std::size_t i = 0; i < cache.size(); ++i) worst.same(is_poison(cache[i]), i);
    for (std::uint32_t c = 0; c < 16; ++c) worst.same(is_poison(out.at(0, c)) && is_poison(out.at(1, c)), c);
    suite.check("attention of a sequence without rows", worst.good(), worst.detail());
}

inline void attention_cases(Suite& suite) {
    for (std::uint32_t past : {0u, 1u, 30u, 31u, 32u, 255u, 300u}) {
        attention_case<9, 3, 64, 64>(suite, past, 1);
        attention_case<8, 1, 8, 8, true>(suite, past, 2);
    }
    attention_case<9, 3, 64, 16>(suite, 0, 40);
    attention_case<9, 3, 64, 24>(suite, 250, 20);
    attention_case<14, 2, 64, 64>(suite, 70, 9);                     // groups of 7: two passes
    attention_case<8, 2, 128, 64, true>(suite, 65, 3);               // Qwen3
    attention_case<4, 1, 128, 64, false, true, 32>(suite, 500, 12);  // Llama 3's frequencies
    attention_case<3, 3, 72, 40, true, false>(suite, 100, 5);
    attention_case<2, 1, 256, 8>(suite, 37, 17);
    attention_case<5, 1, 24, 8, true, true, 8>(suite, 1000, 2);
    idle_attention(suite);
}

}  // namespace testing
