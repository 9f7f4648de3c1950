// Who communicates: warps of every block (intra_sm), or the last blocks of the launch, which do nothing else
// (inter_sm: C::comm_sms is not 0).
#pragma once

#include "pk/lcsc/layout.hpp"

namespace pk::lcsc {

template <class C>
inline constexpr bool inter_sm = C::comm_sms != 0;

// An agent is a team of pushers. Each block has one, or, where it does nothing else, as many as its warps
// make.
inline constexpr std::uint32_t agents_of_block = block_size / 32 / pushers;
static_assert(agents_of_block * pushers * 32 == block_size);

// Blocks that only communicate: what the spec says, but no more than half of `sms`; in whole clusters of so
// many blocks, of which there must be two. All ranks have as many SMs, so they deal alike.
template <class C>
PK_HOST_DEVICE constexpr std::uint32_t communicating(std::uint32_t sms, std::uint32_t cluster) {
    if constexpr (!inter_sm<C>) return 0;
    const std::uint32_t half = sms / 2 / cluster * cluster;
    return C::comm_sms < half ? C::comm_sms : half;
}

template <class C>
PK_HOST_DEVICE constexpr std::uint32_t agents(std::uint32_t sms) {
    return inter_sm<C> ? communicating<C>(sms, members) * agents_of_block : sms;
}

// How many blocks there must be.
template <class C>
constexpr std::uint32_t least_sms(std::uint32_t cluster) {
    return inter_sm<C> ? cluster * 2 : cluster;
}

}  // namespace pk::lcsc
