// The same tensor on every rank, as the network reaches all of them at once: of a MulticastMemory.
#pragma once

#include "pk/memory/peer_tensor.hpp"

namespace pk::memory {

#if PK_CUDA
template <class T>
struct MulticastTensor {
    T* all;  // a multimem address: only for the instructions of ptx/multimem.hpp
};
#else
// The host has no such network: the twin goes from rank to rank.
template <class T>
using MulticastTensor = PeerTensor<T>;
#endif

}  // namespace pk::memory
