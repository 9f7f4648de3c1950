// Few rows to all ranks, before a product of them (narrow.hpp): the protocol of the pushers' rows
// (communicator.hpp), but all consumers of all blocks send, and the rank itself gets its rows, too, so that
// all rows lie together.
#pragma once

#include "pk/lcsc/communicator.hpp"
#include "pk/lcsc/narrow_exchange.hpp"

namespace pk::lcsc::narrow {

template <class C>
class FewRows {
    struct ByRegisters : C {
        static constexpr bool by_tma = false;
    };

public:
    PK_DEVICE FewRows(const Given& given, unsigned char* memory)
        : a_(given),
          block_(given, memory, blockIdx.x, gridDim.x),
          pusher_(block_, threadIdx.x / 32, threadIdx.x % 32) {}

    // By the consumers.
    PK_DEVICE void send() {
        if (!pusher_.begin()) return;
        pusher_.push_few_rows(blockIdx.x * consumer_warps + threadIdx.x / 32, gridDim.x * consumer_warps);
    }

    // By one thread, before bulk loads of rows: acquires what the pushers of all ranks released.
    PK_DEVICE bool wait(Patience& patience) const {
        bool there = true;
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            if (a_.shards.count(r) == 0) continue;
            const std::uint32_t* flag =
                block_.flags(a_.rank, a_.workspace.gathered_flags) + r * a_.workspace.blocks;
            there = there && patience.flag(flag, block_.epoch, Wait::gathered, 0, r);
        }
        ptx::fence_proxy_async();
        return there;
    }

    // By all threads, when all rows have been read.
    PK_DEVICE void end() {
        pusher_.end();
        __syncthreads();
        if (threadIdx.x == 0) end_call(block_);
    }

private:
    const Given& a_;
    Block<ByRegisters> block_;
    Pusher<ByRegisters> pusher_;
};

}  // namespace pk::lcsc::narrow
