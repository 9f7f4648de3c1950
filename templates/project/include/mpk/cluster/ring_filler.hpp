// The ring of pages as a warp sees it that fills it.
#pragma once

#include "mpk/cluster/layout.hpp"
#include "pk/ptx/mbarrier.hpp"
#include "pk/ptx/shared_flag.hpp"

namespace mpk::cluster {

#if PK_SM90

// Where in the ring: the pages go round.
template <std::uint32_t Pages>
struct RingPlace {
    std::uint32_t page = 0, parity = 0;

    PK_DEVICE void advance() {
        if (++page == Pages) {
            page = 0;
            parity ^= 1;
        }
    }
    // `count` pages before; no more than there are.
    PK_DEVICE RingPlace back(std::uint32_t count) const {
        if (count <= page) return {page - count, parity};
        return {page + Pages - count, parity ^ 1};
    }
};

// For one lane, where it does not say that all lanes call.
template <class D, std::uint32_t R>
class RingFiller {
    using L = Layout<D, R>;

public:
    using Place = RingPlace<L::pages>;
    Place next;

    PK_DEVICE explicit RingFiller(unsigned char* memory) : memory_(memory) {}

    PK_DEVICE unsigned char* page() const { return memory_ + L::ring + next.page * page_bytes; }
    PK_DEVICE std::uint64_t* full() const { return &control().full[next.page]; }

    // All lanes get to know the place, which the first has.
    PK_DEVICE void share_place() {
        next.page = __shfl_sync(~0u, next.page, 0);
        next.parity = __shfl_sync(~0u, next.parity, 0);
    }

    // All lanes go by what the first knows, and see what it has seen.
    PK_DEVICE bool has_left() {
        left_ = __shfl_sync(~0u, left_, 0);
        __syncwarp();
        return left_;
    }
    PK_DEVICE bool left() const { return left_; }
    PK_DEVICE void leave() { left_ = true; }

    // Until `done()`, or the consumers have left. They may do so while somebody waits: what is loaded for a
    // step that does not come, they never take.
    template <class Done>
    PK_DEVICE void wait_until(Done done) {
        while (!left_ && !done()) left_ = pk::ptx::load_volatile(&control().leaving) != 0;
    }

    // Until the page at a place has come.
    PK_DEVICE void wait_full(const Place& place) {
        wait_until([&] { return pk::ptx::mbarrier_try_wait(&control().full[place.page], place.parity); });
    }

    // Waits until the next page is free; then `bytes` are expected in it. False if it is time to leave. What
    // was asked for before is there: a consumer gives back only what has come.
    PK_DEVICE bool expect(std::uint32_t bytes) {
        wait_until([&] { return pk::ptx::mbarrier_try_wait(&control().empty[next.page], next.parity ^ 1); });
        if (left_) return false;
        asked_.pages |= 1u << next.page;
        asked_.odd ^= 1u << next.page;
        pk::ptx::mbarrier_arrive_expect_tx(full(), bytes);
        return true;
    }

    // What this warp has asked for; and what another one has, for this one to wait for.
    PK_DEVICE const AskedFor& asked() const { return asked_; }
    PK_DEVICE void take_over(const AskedFor& other) {
        asked_.pages |= other.pages;
        asked_.odd ^= other.odd;
    }

    // Shared memory must outlive the copies under way. No bound: each has been asked for, and ends by itself.
    PK_DEVICE void drain() const {
        for (std::uint32_t p = 0; p < L::pages; ++p) {
            if ((asked_.pages >> p & 1) == 0) continue;
            while (!pk::ptx::mbarrier_try_wait(&control().full[p], (asked_.odd >> p & 1) ^ 1)) {
            }
        }
    }

private:
    PK_DEVICE Control& control() const { return *reinterpret_cast<Control*>(memory_ + L::control); }

    unsigned char* memory_;
    AskedFor asked_ = {};
    bool left_ = false;
};

#endif

}  // namespace mpk::cluster
