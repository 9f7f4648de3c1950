// The event protocol with threads; built a second time under ThreadSanitizer. Argument: steps of a call.
#include "cases/protocol.hpp"

int main(int argc, char** argv) {
    testing::Suite suite;
    const int steps = argc > 1 ? std::atoi(argv[1]) : 3000;
    testing::protocol_cases(suite, {1, 2, 3, 8, 16}, static_cast<std::uint32_t>(steps));
    testing::watchdog_cases(suite);
    return suite.finish();
}
