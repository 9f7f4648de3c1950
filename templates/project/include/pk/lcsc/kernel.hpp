// The kernel: one block an SM, whose warps take roles (loader, consumers, communicator) until the call is
// done. Of inter_sm (schedule.hpp) the last blocks have only pushers, and the others none.
#pragma once

#include "pk/lcsc/communicator.hpp"
#include "pk/lcsc/consumer.hpp"
#include "pk/lcsc/loader.hpp"
#include "pk/ptx/registers.hpp"

namespace pk::lcsc {

// Registers of a thread: at the launch, and then of a consumer and of the others. A warpgroup that takes more
// waits until it gets them, so that all together must be no more than the block was launched with.
inline constexpr std::uint32_t launch_registers = 168, consumer_registers = 208, other_registers = 88;
static_assert(consumer_registers * consumer_threads + other_registers * (block_size - consumer_threads) <=
              launch_registers * block_size);
static_assert(launch_registers == 65536 / block_size / 8 * 8);

namespace detail {

template <class C>
PK_DEVICE void init_barriers(typename Layout<C>::Barriers& barriers) {
    for (std::uint32_t s = 0; s < C::stages; ++s) {
        ptx::mbarrier_init(&barriers.full[s], 1);
        ptx::mbarrier_init(&barriers.empty[s], members * consumer_threads / 32);
    }
    for (std::uint32_t s = 0; s < Layout<C>::staging_slots; ++s) {
        ptx::mbarrier_init(&barriers.staged_full[s], consumer_threads);
        ptx::mbarrier_init(&barriers.staged_free[s], pushers);
    }
    for (std::uint32_t b = 0; b < Layout<C>::movers * Layout<C>::mover_buffers; ++b)
        ptx::mbarrier_init(&barriers.moved[b], 1);
    ptx::mbarrier_init_fence();
}

}  // namespace detail

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "this kernel is for sm_90a: with CMAKE_CUDA_ARCHITECTURES=90 it would do nothing"
#endif

// Empty on other chips, which the engine refuses.
template <class C>
__global__ void __cluster_dims__(members) __launch_bounds__(block_size, 1)
    overlapped(const __grid_constant__ Arguments a, const __grid_constant__ Maps maps) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char shared[];
    unsigned char* memory = shared + (-ptx::shared_address(shared) & 1023);
    if (threadIdx.x == 0) detail::init_barriers<C>(Layout<C>::barriers(memory));
    if (threadIdx.x == consumer_threads) Loader<C>::prefetch(maps);
    if (!over_ranks<C> && threadIdx.x == 0) ptx::let_next_launch_begin();
    ptx::cluster_sync();
    if (Block<C>::has_epoch(a)) ptx::wait_for_launches_before();
    Block<C> block(a, memory, blockIdx.x, gridDim.x);
    if (block.communicates()) {  // with the registers of the launch, which are no fewer than a pusher's
        const std::uint32_t warp = threadIdx.x / 32;
        // First one of each block: those that have more to do are spread over all.
        const std::uint32_t agent =
            warp / pushers * (block.sms - block.computing()) + block.sm - block.computing();
        Pusher<C>(block, agent, warp, threadIdx.x % 32).run();
    } else if (threadIdx.x < consumer_threads) {
        ptx::take_registers<consumer_registers>();
        Consumer<C>(block, threadIdx.x).run();
    } else {
        ptx::give_back_registers<other_registers>();
        const std::uint32_t warp = (threadIdx.x - consumer_threads) / 32, lane = threadIdx.x % 32;
        if (warp != 0) {
            if constexpr (over_ranks<C> && !inter_sm<C>) Pusher<C>(block, block.sm, warp - 1, lane).run();
        } else if (lane == 0) {
            Loader<C>(block, maps).run();
        }
    }
    ptx::cluster_sync();  // nobody leaves while others write to its memory
    if (Block<C>::has_epoch(a) && threadIdx.x == 0) {
        if constexpr (over_ranks<C>) ptx::let_next_launch_begin();
        end_call(a, block.epoch, block.sms);
    }
#endif
}

}  // namespace pk::lcsc
