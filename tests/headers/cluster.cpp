// What the cluster worker computes on the host too: who streams and computes what, and where it lies.
#include "cases/cluster_keys.hpp"
#include "cases/cluster_layout.hpp"
#include "cases/cluster_prefill.hpp"
#include "cases/cluster_shares.hpp"

int main() {
    testing::Suite suite;
    testing::cluster_shares_cases(suite);
    testing::cluster_keys_cases(suite);
    testing::cluster_layout_cases(suite);
    testing::cluster_prefill_cases(suite);
    return suite.finish();
}
