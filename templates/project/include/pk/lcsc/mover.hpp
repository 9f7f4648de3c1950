// What a pusher moves bytes with: registers, or bulk copies (TMA) through shared memory. Both take `count`
// runs of `pieces` pieces of 16 bytes: from(run) is where a run lies on this device, and to(run, store) calls
// store(address) for every place that gets it.
#pragma once

#include "pk/lcsc/block.hpp"
#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/bulk_store.hpp"
#include "pk/ptx/fence.hpp"
#include "pk/ptx/system_memory.hpp"

namespace pk::lcsc {

// Before a batch: its time. Stores that find the link full stand in the way of the loads of their SM, so they
// are spread evenly.
class Pace {
public:
    PK_DEVICE explicit Pace(std::uint32_t cycles) : cycles_(cycles) {}

    PK_DEVICE void keep() {
        if (cycles_ == 0) return;
        std::uint64_t now = ticks();
        while (static_cast<std::int64_t>(now - next_) < 0) now = ticks();
        next_ = (static_cast<std::int64_t>(now - next_) < cycles_ ? next_ : now) + cycles_;
    }

private:
    std::int64_t cycles_;
    std::uint64_t next_ = 0;
};

// By all lanes of a warp.
template <class C>
class RegisterMover {
public:
    PK_DEVICE RegisterMover(Block<C>& block, std::uint32_t, std::uint32_t lane)
        : lane_(lane), pace_(block.a.pace) {}

    template <bool Paced = true, class From, class To>
    PK_DEVICE void move(std::uint32_t count, std::uint32_t pieces, From from, To to) {
        const std::uint32_t all = count * pieces;
        const auto run_of = [&](std::uint32_t at) { return count == 1 ? 0 : at / pieces; };
        const auto load = [&](std::uint32_t at) {
            const std::uint32_t run = run_of(at);
            return ptx::load_past_l1(from(run) + std::uint64_t{at - run * pieces} * 16);
        };
        const auto store = [&](std::uint32_t at, uint4 v) {
            const std::uint32_t run = run_of(at);
            to(run, [&](unsigned char* place) {
                ptx::store_16(place + std::uint64_t{at - run * pieces} * 16, v);
            });
        };
        std::uint32_t at = lane_;
        for (; at + (ahead - 1) * 32 < all; at += ahead * 32) {
            uint4 v[ahead];
            if constexpr (Paced) pace_.keep();
            PK_UNROLL
            for (std::uint32_t n = 0; n < ahead; ++n) v[n] = load(at + n * 32);
            PK_UNROLL
            for (std::uint32_t n = 0; n < ahead; ++n) store(at + n * 32, v[n]);
        }
        for (; at < all; at += 32) store(at, load(at));
    }

    // Stores are in order before a signal.
    PK_DEVICE void settle() {}

private:
    static constexpr std::uint32_t ahead = 8;  // loads under way of each lane

    std::uint32_t lane_;
    Pace pace_;
};

// By all lanes of a warp, each of which moves its runs of a buffer, or parts of runs. What is moved has been
// written before the kernel, or in the generic proxy by threads with which this one has synchronized, and is
// read here in the async proxy: move() has the fence.
template <class C>
class BulkMover {
    using L = Layout<C>;

public:
    PK_DEVICE BulkMover(Block<C>& block, std::uint32_t number, std::uint32_t lane)
        : block_(block),
          lane_(lane),
          pace_(block.a.pace),
          buffers_(block.memory + L::mover_at + number * L::mover_bytes),
          full_(block.barriers().moved + number * L::mover_buffers) {}

    template <bool Paced = true, class From, class To>
    PK_DEVICE void move(std::uint32_t count, std::uint32_t pieces, From from, To to) {
        const std::uint32_t all = count * pieces;
        if (all == 0) return;
        ptx::fence_proxy_async();
        load<Paced>(0, all, pieces, from);
        _Pragma("unroll 1") for (std::uint32_t at = 0; at < all; at += buffer_pieces) {
            const std::uint32_t buffer = place_.index, parity = place_.parity;
            place_.advance();
            if (at + buffer_pieces < all) load<Paced>(at + buffer_pieces, all, pieces, from);
            if (!block_.wait_all(full_[buffer], parity, Wait::moved, buffer))
                return block_.patience.outlive_copies();
            each_part(at, all, pieces,
                      [&](std::uint32_t run, std::uint32_t first, std::uint32_t inside, std::uint32_t bytes) {
                          to(run, [&](unsigned char* place) {
                              ptx::bulk_store(place + std::uint64_t{first} * 16,
                                              buffer_of(buffer) + inside * 16, bytes);
                          });
                      });
            ptx::bulk_store_commit();
        }
    }

    // Until what this lane has moved is complete, so that a lane that has synchronized with it may signal.
    PK_DEVICE void settle() { ptx::bulk_store_wait<0>(); }

private:
    static constexpr std::uint32_t buffer_pieces = L::mover_buffer_bytes / 16;

    PK_DEVICE unsigned char* buffer_of(std::uint32_t buffer) const {
        return buffers_ + buffer * L::mover_buffer_bytes;
    }

    // Pieces from `at` on into the buffer whose turn it is, when the stores of what was in it have read it.
    template <bool Paced, class From>
    PK_DEVICE void load(std::uint32_t at, std::uint32_t all, std::uint32_t pieces, From from) {
        const std::uint32_t left = all - at, now = left < buffer_pieces ? left : buffer_pieces;
        ptx::bulk_store_wait_read<0>();
        if constexpr (Paced) pace_.keep();
        std::uint64_t* barrier = &full_[place_.index];
        if (lane_ == 0) ptx::mbarrier_arrive_expect_tx(barrier, now * 16);
        __syncwarp();
        each_part(at, all, pieces,
                  [&](std::uint32_t run, std::uint32_t first, std::uint32_t inside, std::uint32_t bytes) {
                      ptx::bulk_load(buffer_of(place_.index) + inside * 16,
                                     from(run) + std::uint64_t{first} * 16, bytes, barrier);
                  });
    }

    // body(run, its first piece, where in the buffer, bytes) for the parts of runs that pieces from `at` on
    // are, in a buffer; every 32nd to a lane.
    template <class Body>
    PK_DEVICE void each_part(std::uint32_t at, std::uint32_t all, std::uint32_t pieces, Body body) const {
        const std::uint32_t end = all - at < buffer_pieces ? all : at + buffer_pieces;
        for (std::uint32_t run = at / pieces + lane_; std::uint64_t{run} * pieces < end; run += 32) {
            const std::uint32_t begin = run * pieces, first = begin < at ? at - begin : 0;
            const std::uint32_t last = end - begin < pieces ? end - begin : pieces;
            body(run, first, begin + first - at, (last - first) * 16);
        }
    }

    Block<C>& block_;
    std::uint32_t lane_;
    Pace pace_;
    unsigned char* buffers_;
    std::uint64_t* full_;
    RingPlace<L::mover_buffers> place_;
};

template <class C>
using Mover = std::conditional_t<C::by_tma, BulkMover<C>, RegisterMover<C>>;

}  // namespace pk::lcsc
