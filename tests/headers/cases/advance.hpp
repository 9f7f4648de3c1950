// advance: what is recorded, who is retired, and which rows come next.
#pragma once

#include "mpk/tasks/advance.hpp"
#include "support/fixture.hpp"
#include "support/suite.hpp"

namespace testing {

struct AdvanceVariant {
    struct slot {
        static constexpr int sampled = 0, tokens = 1;
    };
};

// Decodes a whole call step by step with made-up sampled tokens, and checks each step against the definition.
class Call {
public:
    Call(std::uint32_t batch, std::uint32_t rows, std::uint32_t context)
        : fixture_(batch, rows, context), sampled_(batch), tokens_(rows), read_(batch), made_(batch) {}

    void add(std::uint32_t s, std::uint32_t prompt_length, std::uint32_t max_new, bool score,
             std::int32_t stop = -1) {
        auto& sequence = fixture_.sequences[s];
        sequence = {};
        sequence.prompt_length = prompt_length;
        sequence.max_new_tokens = max_new;
        sequence.score_prompt = score ? 1 : 0;
        if (stop >= 0) {
            sequence.stop_count = 1;
            sequence.stop[0] = stop;
        }
        for (std::uint32_t i = 0; i < prompt_length; ++i) {
            fixture_.prompts[std::size_t{s} * fixture_.m.context + i] =
                static_cast<std::int32_t>(5000 + s * 100 + i);
        }
    }

    void run() {
        first();
        for (std::uint32_t steps = 0; fixture_.live[0] != 0; ++steps) {
            worst_.same(steps < 10000, steps);
            if (steps >= 10000) return;
            check_step();
            for (std::uint32_t s = 0; s < fixture_.m.batch; ++s) {
                read_[s] += fixture_.rows_of[s];
                sampled_[s] = static_cast<std::int32_t>(below(1000));
                fixture_.logprob[s] = static_cast<float>(normal());
                if (fixture_.sample_row[s] >= 0) expect(s);
            }
            fixture_.run<mpk::tasks::Advance<AdvanceVariant>>(task_over(0, 1),
                                                              {sampled_.data(), tokens_.data()});
            check_output();
        }
        for (std::uint32_t s = 0; s < fixture_.m.batch; ++s) {
            worst_.same(fixture_.sequences[s].prompt_length == 0 || fixture_.finish[s] != 0, s);
        }
    }

    void report(Suite& suite, const std::string& name) { suite.check(name, worst_.good(), worst_.detail()); }

private:
    // The engine's side: the same code on host memory.
    void first() {
        mpk::Machine host = fixture_.m;
        std::vector<mpk::Sequence> sequences = fixture_.sequences.values();
        std::vector<std::int32_t> prompts = fixture_.prompts.values();
        host.sequences = sequences.data();
        host.prompts = prompts.data();
        host.step = {&fixture_.row_count[0],  &fixture_.live[0],      &fixture_.sequence[0],
                     &fixture_.position[0],   &fixture_.first_row[0], &fixture_.rows_of[0],
                     &fixture_.sample_row[0], &fixture_.logprob[0]};
        mpk::first_step(host, &tokens_[0]);
    }

    bool live(std::uint32_t s) {
        const auto& sequence = fixture_.sequences[s];
        return sequence.prompt_length != 0 && fixture_.finish[s] == 0;
    }

    void check_step() {
        const std::uint32_t rows = fixture_.row_count[0];
        std::uint32_t lives = 0, row = 0, wanted = 0;
        worst_.same(rows <= fixture_.m.rows, rows);
        for (std::uint32_t s = 0; s < fixture_.m.batch; ++s) {
            const auto& sequence = fixture_.sequences[s];
            const std::uint32_t count = fixture_.rows_of[s];
            if (!live(s)) {
                worst_.same(count == 0 && fixture_.sample_row[s] == -1, s);
                continue;
            }
            ++lives;
            worst_.same(count >= 1 && fixture_.first_row[s] == row, s);
            const bool reading = read_[s] < sequence.prompt_length;
            const std::uint32_t most =
                reading && sequence.score_prompt == 0 ? sequence.prompt_length - read_[s] : 1;
            wanted += most;
            worst_.same(count <= most, s);
            for (std::uint32_t i = 0; i < count; ++i, ++row) {
                const std::uint32_t position = read_[s] + i;
                worst_.same(fixture_.sequence[row] == s && fixture_.position[row] == position, row);
                const std::int32_t token = position < sequence.prompt_length
                                               ? static_cast<std::int32_t>(5000 + s * 100 + position)
                                               : made_[s].back();
                worst_.same(tokens_[row] == token, row);
            }
            const bool samples = sequence.score_prompt != 0 || read_[s] + count >= sequence.prompt_length;
            worst_.same(fixture_.sample_row[s] == (samples ? static_cast<std::int32_t>(row - 1) : -1), s);
        }
        worst_.same(row == rows && lives == fixture_.live[0], rows);
        // No room is left over while a prompt waits.
        worst_.same(rows == std::min(wanted, fixture_.m.rows), rows);
    }

    // What the sampled token of sequence s must lead to.
    void expect(std::uint32_t s) {
        const std::uint32_t position = read_[s];
        scores_.push_back({std::size_t{s} * (fixture_.m.context + 1) + position, fixture_.logprob[s]});
        if (position >= fixture_.sequences[s].prompt_length) made_[s].push_back(sampled_[s]);
    }

    void check_output() {
        for (const auto& [at, score] : scores_) worst_.same(same_bits(fixture_.logprobs[at], score), at);
        scores_.clear();
        for (std::uint32_t s = 0; s < fixture_.m.batch; ++s) {
            const auto& sequence = fixture_.sequences[s];
            worst_.same(fixture_.count[s] == made_[s].size(), s);
            for (std::size_t i = 0; i < made_[s].size(); ++i) {
                worst_.same(fixture_.tokens[std::size_t{s} * fixture_.m.context + i] == made_[s][i], s);
            }
            std::uint32_t finish = 0;
            if (!made_[s].empty() && made_[s].size() >= sequence.max_new_tokens) finish = 2;
            if (!made_[s].empty() && sequence.stop_count != 0 && made_[s].back() == sequence.stop[0])
                finish = 1;
            worst_.same(fixture_.finish[s] == finish, s);
        }
    }

    struct Score {
        std::size_t at;
        float value;
    };

    Fixture fixture_;
    Array<std::int32_t> sampled_, tokens_;
    std::vector<std::uint32_t> read_;
    std::vector<std::vector<std::int32_t>> made_;
    std::vector<Score> scores_;
    Worst worst_;
};

inline void advance_cases(Suite& suite) {
    {
        Call call(1, 1, 8);
        call.add(0, 8, 1, false);  // the token after a full context
        call.run();
        call.report(suite, "a prompt as long as the context");
    }
    {
        Call call(4, 4, 64);
        call.add(0, 1, 30, false);
        call.add(2, 20, 5, true);
        call.add(3, 9, 2, false);
        call.run();
        call.report(suite, "rows as few as sequences, one unused entry");
    }
    for (std::uint32_t round = 0; round < 12; ++round) {
        const std::uint32_t batch = 1 + below(16), rows = batch + below(40);
        Call call(batch, rows, 100);
        for (std::uint32_t s = 0; s < batch; ++s) {
            const std::uint32_t prompt = below(100);
            call.add(s, prompt, 1 + below(101 - prompt), below(3) == 0, static_cast<std::int32_t>(below(20)));
        }
        call.run();
        call.report(suite, "random call " + std::to_string(round) + " batch=" + std::to_string(batch) +
                               " rows=" + std::to_string(rows));
    }
}

}  // namespace testing
