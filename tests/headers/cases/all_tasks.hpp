// Every task body.
#pragma once

#include "cases/advance.hpp"
#include "cases/attention.hpp"
#include "cases/elementwise.hpp"
#include "cases/linear.hpp"
#include "cases/sample.hpp"

namespace testing {

inline void all_task_cases(Suite& suite) {
    linear_cases(suite);
    elementwise_cases(suite);
    attention_cases(suite);
    sample_cases(suite);
    advance_cases(suite);
}

}  // namespace testing
