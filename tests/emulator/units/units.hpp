// The emulator's own tests.
#pragma once

namespace units {

void test_product();
void test_matrix_loads();
void test_transposition();
void test_warpgroup_product();
void test_warpgroup_pieces();
void test_copies();
void test_exchange();
void test_votes();
void test_what_cannot_go_on();
void test_shuffles();
void test_stores();

}  // namespace units
