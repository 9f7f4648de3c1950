#include <cstdio>

#include "check.hpp"
#include "units.hpp"

int main() {
    units::test_product();
    units::test_matrix_loads();
    units::test_transposition();
    units::test_warpgroup_product();
    units::test_warpgroup_pieces();
    units::test_copies();
    units::test_exchange();
    units::test_votes();
    units::test_shuffles();
    units::test_stores();
    units::test_what_cannot_go_on();
    std::printf("%d failures\n", units::failures);
    return units::failures == 0 ? 0 : 1;
}
