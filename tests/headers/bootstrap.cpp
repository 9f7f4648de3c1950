// Ranks that find each other and share memory, on the host. Argument `threads`: without processes, for
// ThreadSanitizer, which a fork does not agree with.
#include <cstring>

#include "cases/bootstrap_environment.hpp"
#include "cases/bootstrap_meeting.hpp"
#include "cases/bootstrap_memory.hpp"

int main(int argc, char** argv) {
    testing::Suite suite;
    const bool only_threads = argc > 1 && std::strcmp(argv[1], "threads") == 0;
    testing::environment_cases(suite);
    testing::memory_cases(suite, "threads", testing::as_threads, {1, 2, 3, 5, 8});
    testing::round_cases(suite, "threads", testing::as_threads, 3);
    testing::view_cases(suite);
    testing::together_case(suite);
    testing::refusal_cases(suite, "threads", testing::as_threads);
    testing::callback_cases(suite, "threads", testing::as_threads);
    if (only_threads) return suite.finish();
    testing::memory_cases(suite, "processes", testing::as_processes, {1, 2, 3, 4});
    testing::round_cases(suite, "processes", testing::as_processes, 3);
    testing::mixed_case(suite);
    testing::refusal_cases(suite, "processes", testing::as_processes);
    testing::callback_cases(suite, "processes", testing::as_processes);
    testing::lost_rank_cases(suite);
    testing::name_cases(suite);
    testing::stranger_cases(suite);
    testing::launched_cases(suite);
    return suite.finish();
}
