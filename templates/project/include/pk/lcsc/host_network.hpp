// The host twin of network.hpp.
#pragma once

#include "pk/lcsc/host_together.hpp"
#include "pk/lcsc/network_sum.hpp"
#include "pk/primitives/network_reduce.hpp"

namespace pk::lcsc {

// A block's part of an all-reduce in the network.
template <class Type>
void host_network_all_reduce(const NetworkSum& m, std::uint32_t sm, std::uint32_t sms) {
    HostTogether(m, sm, sms).run([&] {
        all_reduce_in_network<Type>(m.out, m.in, m.first_byte(), m.bytes(), sm, sms);
    });
}

}  // namespace pk::lcsc
