// all_reduce_in_network: elements of the same tensor on all ranks, added up by the network on their way to
// one rank, which sends the sum to the same place of every rank, once for all. The network adds in whatever
// order, so two runs may differ in the last bit.
//
// Threads share the work as in reduce.hpp, and the same flags go before and after: the caller has waited for
// one by which each rank released its tensor, in each of the threads or in one with which they have
// synchronized; what a rank has read and stored here is released by a flag that the caller signals once all
// threads are through. Each rank fills and reads its tensors by another address than the one used here: the
// two fences are on every way from those accesses to these, and back. In place each rank has pieces of its
// own to do.
#pragma once

#include "pk/memory/multicast_tensor.hpp"
#if PK_CUDA
#include "pk/ptx/multimem.hpp"
#else
#include "pk/tile/element_host.hpp"
#endif

namespace pk {

namespace detail {

inline constexpr std::uint32_t network_piece = 16;  // bytes

// `Count` pieces, all on their way before the first is stored.
template <class Type, std::uint32_t Count>
PK_DEVICE void sum_in_network(const memory::MulticastTensor<char>& to,
                              const memory::MulticastTensor<char>& tensor, std::uint64_t at,
                              std::uint64_t step) {
#if PK_CUDA
    uint4 v[Count];
    PK_UNROLL
    for (std::uint32_t n = 0; n < Count; ++n) v[n] = ptx::multimem_add<Type>(tensor.all + at + n * step);
    PK_UNROLL
    for (std::uint32_t n = 0; n < Count; ++n) ptx::multimem_store<Type>(to.all + at + n * step, v[n]);
#else
    // No memcpy, of which ThreadSanitizer does not see the writes.
    using E = tile::Element<Type>;
    const auto halves = [](char* base, std::uint64_t place) {
        return reinterpret_cast<std::uint16_t*>(base + place);
    };
    for (std::uint32_t n = 0; n < Count; ++n) {
        for (std::uint64_t p = at + n * step, end = p + network_piece; p < end; p += 4) {
            float low = 0, high = 0;
            for (std::uint32_t r = 0; r < tensor.world; ++r) {
                const std::uint16_t* pair = halves(tensor.at[r], p);
                float l, h;
                E::unpack(pair[0] | std::uint32_t{pair[1]} << 16, l, h);
                low += l;
                high += h;
            }
            const std::uint32_t sum = E::pack(low, high);
            for (std::uint32_t r = 0; r < to.world; ++r) {
                std::uint16_t* pair = halves(to.at[r], p);
                pair[0] = static_cast<std::uint16_t>(sum);
                pair[1] = static_cast<std::uint16_t>(sum >> 16);
            }
        }
    }
#endif
}

}  // namespace detail

// `bytes` from byte `at` of both tensors on, multiples of 16.
template <class Type>
PK_DEVICE void all_reduce_in_network(const memory::MulticastTensor<char>& to,
                                     const memory::MulticastTensor<char>& tensor, std::uint64_t at,
                                     std::uint64_t bytes, std::uint32_t thread, std::uint32_t threads) {
    constexpr std::uint32_t ahead = 4;
    const std::uint64_t step = std::uint64_t{threads} * detail::network_piece, end = at + bytes;
    std::uint64_t p = at + std::uint64_t{thread} * detail::network_piece;
#if PK_CUDA
    ptx::fence_proxy_alias();
#endif
    for (; p + (ahead - 1) * step < end; p += ahead * step)
        detail::sum_in_network<Type, ahead>(to, tensor, p, step);
    for (; p < end; p += step) detail::sum_in_network<Type, 1>(to, tensor, p, step);
#if PK_CUDA
    ptx::fence_proxy_alias();
#endif
}

}  // namespace pk
