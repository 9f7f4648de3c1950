// Every task body on the host against an independent reference in double.
#include "cases/all_tasks.hpp"

int main() {
    testing::Suite suite;
    testing::all_task_cases(suite);
    return suite.finish();
}
