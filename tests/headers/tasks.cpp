// Every task body against an independent reference in double. Compiled by g++ for the host, and by nvcc (as
// gpu_tasks.cu) for a GPU.
#include "cases/linear.hpp"

#include "cases/elementwise.hpp"

int main() {
    testing::Suite suite;
    testing::linear_cases(suite);
    testing::elementwise_cases(suite);
    return suite.finish();
}
