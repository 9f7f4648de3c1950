// Counts checks and prints one line a case.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace testing {

class Suite {
public:
    void check(const std::string& name, bool passed, const std::string& detail = "") {
        std::printf("%s %s%s%s\n", passed ? "PASS" : "FAIL", name.c_str(), detail.empty() ? "" : ": ",
                    detail.c_str());
        std::fflush(stdout);
        ++(passed ? passed_ : failed_);
    }

    int finish() const {
        std::printf("%d passed, %d failed\n", passed_, failed_);
        return failed_ == 0 ? 0 : 1;
    }

private:
    int passed_ = 0, failed_ = 0;
};

// Compares many values with a reference and keeps the worst.
class Worst {
public:
    void add(double value, double reference, double tolerance, std::uint64_t where) {
        const double error = std::fabs(value - reference);
        if (!(error <= tolerance) && bad_++ == 0) {
            first_ = "at " + std::to_string(where) + " " + std::to_string(value) + " for " +
                     std::to_string(reference);
        }
        ++count_;
    }
    void same(bool equal, std::uint64_t where) {
        if (!equal && bad_++ == 0) first_ = "differs at " + std::to_string(where);
        ++count_;
    }
    bool good() const { return bad_ == 0 && count_ != 0; }
    std::string detail() const {
        return good() ? "" : std::to_string(bad_) + " of " + std::to_string(count_) + ", first " + first_;
    }

private:
    std::uint64_t bad_ = 0, count_ = 0;
    std::string first_;
};

// One rounding to bf16.
inline double bf16_tolerance(double reference) {
    return std::fabs(reference) / 256;
}

struct Range {
    std::uint32_t begin, end;
};

}  // namespace testing
