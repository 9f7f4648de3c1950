// Loads the keys and values of a member's stretches, by one warp or by two in turn.
//
// An SM brings some 28 bytes a cycle, a page in 1150, and a warp is held up until almost all it asked for has
// come. What it needs for the next page (numbers of pages, the wait for room) takes another 800, so that a
// second warp has its page ready meanwhile.
#pragma once

#include "mpk/cluster/attention.hpp"
#include "mpk/cluster/ring_filler.hpp"
#include "pk/ptx/block_number.hpp"
#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/fence.hpp"
#include "pk/ptx/mbarrier.hpp"

namespace mpk::cluster {

#if PK_SM90

// A page has a unit of each stretch of a round, or of part of them. A lane has one of those.
template <class D, std::uint32_t R>
class KeyLoader {
    using L = Layout<D, R>;
    using Filler = RingFiller<D, R>;
    static constexpr std::uint32_t units = L::page_tokens / unit;

public:
    PK_DEVICE KeyLoader(const Machine& m, unsigned char* memory, std::uint64_t policy)
        : m_(m),
          memory_(memory),
          control_(*reinterpret_cast<Control*>(memory + L::control)),
          lane_(pk::ptx::thread_number() % 32),
          policy_(policy) {}

    // The first warp, all lanes: all pages of the layer. Returns how many.
    PK_DEVICE std::uint32_t lead(Filler& filler, std::uint32_t layer) {
        const std::uint32_t all = control_.step.stretches;
        if (all == 0) return 0;
        filler.share_place();
        if (all <= units && stretches()[0].steps == 1) return load<1>(filler, layer, 0);
        if (lane_ == 0) {
            control_.keys = {layer, filler.next.page, filler.next.parity, false, false, {}};
            pk::ptx::mbarrier_arrive(&control_.keys_begin);  // releases what it is told
        }
        const std::uint32_t pages = load<2>(filler, layer, 0);
        if (lane_ == 0) {
            wait(control_.keys_end);
            filler.take_over(control_.keys.asked);
            if (control_.keys.left) filler.leave();
        }
        ++rounds_;
        return pages;
    }

    // The first warp, when it leaves.
    PK_DEVICE void dismiss() {
        if (lane_ != 0) return;
        control_.keys.over = true;
        pk::ptx::mbarrier_arrive(&control_.keys_begin);
    }

    // The second warp, all lanes, until it is dismissed.
    PK_DEVICE void help() {
        for (;; ++rounds_) {
            if (lane_ == 0) wait(control_.keys_begin);
            __syncwarp();
            const Control::Keys keys = control_.keys;
            if (keys.over) return;
            // What this step reads from the cache was written in the generic proxy before the epoch was
            // released, which the first warp has acquired.
            if (keys.layer == 0) pk::ptx::fence_proxy_async();
            Filler filler(memory_);
            filler.next = {keys.page, keys.parity};
            load<2>(filler, keys.layer, 1);
            if (lane_ == 0) {
                control_.keys.left = filler.left();
                control_.keys.asked = filler.asked();
                pk::ptx::mbarrier_arrive(&control_.keys_end);
            }
            __syncwarp();
        }
    }

private:
    // For the other warp. No bound: each goes on, or leaves, as the other does.
    PK_DEVICE void wait(std::uint64_t& barrier) const {
        while (!pk::ptx::mbarrier_try_wait(&barrier, rounds_ & 1)) {
        }
    }

    PK_DEVICE const Stretch* stretches() const {
        return reinterpret_cast<const Stretch*>(memory_ + L::stretches);
    }

    // What a lane copies.
    struct Copy {
        std::uint32_t page, token;  // of the cache; in that page
        bool there;
    };

    // Goes through the pages of a layer.
    struct Walk {
        std::uint32_t first = 0, step = 0, from = 0;  // the page's round; in units; its first stretch

        PK_DEVICE void go_on(const Stretch* stretches) {
            const Stretch& round = stretches[first];
            from += units;
            if (from < first + round.together) return;
            from = first;
            if (++step < round.steps) return;
            step = 0;
            first += round.together;
            from = first;
        }
    };

    PK_DEVICE Copy look_up(const Walk& walk) const {
        const std::uint32_t mine = walk.from + lane_ % units;
        const bool in_round = mine < walk.first + stretches()[walk.first].together;
        const Stretch one = stretches()[in_round ? mine : walk.from];
        Copy copy;
        copy.there = lane_ < units && in_round && walk.step < one.count;
        const std::uint32_t token = (one.begin + (copy.there ? walk.step : 0)) * unit;
        const std::uint64_t pages = control_.step.sequence[one.row] * m_.kv.pages_per_sequence;
        copy.page = m_.kv.page_table[pages + token / D::kv_page];
        copy.token = token % D::kv_page;
        return copy;
    }

    // Every page of which the number is `mine` modulo Warps. Returns how many pages there are.
    template <std::uint32_t Warps>
    PK_DEVICE std::uint32_t load(Filler& filler, std::uint32_t layer, std::uint32_t mine) {
        const std::uint32_t all = control_.step.stretches, head = pk::ptx::block_number() / members;
        std::uint32_t pages = 0;
        Walk walk;
        // To the next page of this warp.
        const auto advance = [&](std::uint32_t count) {
            for (; count > 0 && walk.first < all; --count) {
                walk.go_on(stretches());
                ++pages;
            }
        };
        advance(mine);
        std::uint32_t before = pages;
        if (mine != 0) filler.next.advance();
        if (walk.first >= all) return pages;
        Copy copy = look_up(walk);
        for (;;) {
            advance(Warps);
            // The next page's numbers are on their way while this one is waited for.
            const bool last = walk.first >= all;
            const Copy next = last ? copy : look_up(walk);
            const std::uint32_t copies = __popc(__ballot_sync(~0u, copy.there));
            if (lane_ == 0) filler.expect(copies * unit_bytes<D>);
            if (filler.has_left()) return pages;
            if (copy.there) {
                const unsigned char* source = static_cast<const unsigned char*>(m_.kv.data) +
                                              cache_offset<D>(m_, layer, copy.page, head, copy.token);
                pk::ptx::bulk_load(filler.page() + lane_ * unit_bytes<D>, source, unit_bytes<D>,
                                   filler.full(), policy_);
            }
            __syncwarp();
            for (; before < pages; ++before) filler.next.advance();
            if (last) return pages;
            copy = next;
        }
    }

    const Machine& m_;
    unsigned char* memory_;
    Control& control_;
    std::uint32_t lane_;
    std::uint64_t policy_;
    std::uint32_t rounds_ = 0;  // that the two have shared
};

#endif

}  // namespace mpk::cluster
