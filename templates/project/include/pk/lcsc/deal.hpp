// How the products of tiles are dealt to workers: clusters of blocks on the GPU, threads on the host. Each
// takes one tile in a round. What full rounds would leave, fewer tiles than there are workers, these may
// share before the first: of those tiles' steps (tile_k of K each), one tile's after the other's, each has as
// many as the next. Who has the last steps of a tile finishes it, and adds what its helpers have, the workers
// before it with the other steps; always in the same order. (Stream-K, arXiv 2301.03598.)
//
// A worker begins with the part in which it only helps. So nobody waits for somebody who waits, and only for
// workers before it. Where there is no room for all blocks at the same time GPUs begin with those before,
// though nothing promises that: the wait is bounded as all are.
#pragma once

#include "pk/lcsc/tiles.hpp"

namespace pk::lcsc {

// Steps [begin, end) of the tile in a place of the order.
struct Part {
    std::uint32_t place, begin, end;
    bool finishes;

    PK_HOST_DEVICE std::uint32_t steps() const { return end - begin; }
    PK_HOST_DEVICE bool is_helped() const { return finishes && begin != 0; }
};

class Deal {
public:
    // sharing: the workers that share tiles, more than these are; or 0, and there is one more round.
    PK_HOST_DEVICE Deal(std::uint32_t places, std::uint32_t steps, std::uint32_t workers,
                        std::uint32_t sharing)
        : places_(places),
          steps_(steps),
          workers_(workers),
          sharing_(sharing),
          shared_(sharing == 0 ? 0 : places % workers) {}

    // The parts of a worker, in its order. No more than one of them does not finish a tile.
    template <class Body>
    PK_HOST_DEVICE void each_part(std::uint32_t worker, Body body) const {
        if (worker < sharing_) {
            const std::uint64_t begin = bound(worker);
            PK_ROLLED
            for (std::uint64_t end = bound(worker + 1); end > begin;) {
                const auto tile = static_cast<std::uint32_t>((end - 1) / steps_);
                const std::uint64_t first = first_of(tile), at = begin > first ? begin : first;
                body(Part{tile, static_cast<std::uint32_t>(at - first),
                          static_cast<std::uint32_t>(end - first), end - first == steps_});
                end = at;
            }
        }
        PK_ROLLED
        for (std::uint32_t p = shared_ + worker; p < places_; p += workers_) body(Part{p, 0, steps_, true});
    }

    // The helpers of a worker with this part, the one before it first.
    template <class Body>
    PK_HOST_DEVICE void each_helper(std::uint32_t worker, const Part& part, Body body) const {
        if (!part.is_helped()) return;
        const std::uint64_t first = first_of(part.place);
        for (std::uint32_t w = worker; w > 0 && bound(w) > first; --w) {
            if (bound(w - 1) < bound(w)) body(w - 1);
        }
    }

private:
    PK_HOST_DEVICE std::uint64_t first_of(std::uint32_t tile) const { return std::uint64_t{tile} * steps_; }
    // The first step of a worker, of those that are shared.
    PK_HOST_DEVICE std::uint64_t bound(std::uint32_t worker) const {
        return first_of(shared_) * worker / sharing_;
    }

    std::uint32_t places_, steps_, workers_, sharing_, shared_;
};

}  // namespace pk::lcsc
