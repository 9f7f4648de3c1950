// Takes the place of the kernel that reads prompts: prompts are read by the decode kernels, step by step.
#pragma once

#include "mpk/cluster/prefill/buffers.hpp"
#include "mpk/cluster/prefill/locator.hpp"
#include "mpk/cluster/prefill/memory.hpp"

namespace mpk::cluster::prefill {

template <class D>
std::uint32_t tokens_ahead(const Sequence&) {
    return 0;
}

template <class D>
void prefill_main(const Machine&, const Setup&, const Buffers&, unsigned char*) {}

}  // namespace mpk::cluster::prefill
