// From the sums in the shared memory of a cluster to the outputs of the ranks (narrow.hpp).
#pragma once

#include "pk/lcsc/arguments.hpp"
#include "pk/lcsc/layout.hpp"
#include "pk/lcsc/narrow_plan.hpp"
#include "pk/lcsc/patience.hpp"
#include "pk/ptx/cluster.hpp"
#include "pk/ptx/dependent_launch.hpp"
#include "pk/ptx/system_memory.hpp"
#include "pk/ptx/tensor_copy.hpp"
#include "pk/tile/element.hpp"

namespace pk::lcsc::narrow {

// out, out_stride: of this rank, which alone writes there.
struct Given : Arguments {
    // Boxes of all rows, in one of two places where they are gathered, and of what a block of a weight's rows
    // are; by 128 bytes, 128-byte swizzle. To load rows past the last takes longer than others: what comes of
    // those nobody stores.
    ptx::TensorMap rows[2], weight, up;
    Plan plan;
    void* out;
    std::uint32_t* epochs;  // of this rank: u32 [slot], calls completed; zero at first
};

// A piece: eight sums of a row of the output.
template <class Type>
struct Piece {
    using E = tile::Element<Type>;
    float v[8];

    PK_DEVICE void add(const Piece& other) {
        PK_UNROLL
        for (std::uint32_t n = 0; n < 8; ++n) v[n] += other.v[n];
    }
    PK_DEVICE uint4 bits(std::uint32_t n) const {
        return {__float_as_uint(v[n]), __float_as_uint(v[n + 1]), __float_as_uint(v[n + 2]),
                __float_as_uint(v[n + 3])};
    }
    PK_DEVICE void set_bits(std::uint32_t n, uint4 p) {
        v[n] = __uint_as_float(p.x);
        v[n + 1] = __uint_as_float(p.y);
        v[n + 2] = __uint_as_float(p.z);
        v[n + 3] = __uint_as_float(p.w);
    }
    PK_DEVICE uint4 elements() const {
        return {E::pack(v[0], v[1]), E::pack(v[2], v[3]), E::pack(v[4], v[5]), E::pack(v[6], v[7])};
    }
    PK_DEVICE void set_elements(uint4 p) {
        E::unpack(p.x, v[0], v[1]);
        E::unpack(p.y, v[2], v[3]);
        E::unpack(p.z, v[4], v[5]);
        E::unpack(p.w, v[6], v[7]);
    }
};

template <class C>
class Exchange {
    using Piece = narrow::Piece<typename C::Type>;
    static constexpr bool whole = sizeof(typename C::Partial) == 4;  // fp32 summands
    static constexpr bool reduces = C::reduce != Reduce::none, scatters = C::reduce == Reduce::scatter;

public:
    // `sums`: where every block of the cluster has its own.
    PK_DEVICE Exchange(const Given& given, std::uint32_t sums, Patience& patience)
        : a_(given),
          plan_(given.plan),
          sums_(sums),
          split_(blockIdx.x % given.plan.splits),
          patience_(patience) {}

    // By all threads. Arrives at the cluster's barrier when the sums in shared memory have been read. last:
    // no other follows in this call.
    PK_DEVICE void run(std::uint32_t block, bool last) {
        column_ = block * columns();
        if (!reduces || a_.world == 1) {
            each_piece([&](std::uint32_t, std::uint32_t m, std::uint32_t eight) {
                if (!patience_.gone()) store(m, eight, result(m, eight), added(m, eight));
            });
            ptx::cluster_arrive();
            return;
        }
        if constexpr (reduces) exchange(block, last);
    }

private:
    PK_DEVICE void exchange(std::uint32_t block, bool last) {
        const std::uint32_t slot = block * plan_.splits + split_, epoch = load_relaxed(a_.epochs + slot) + 1;
        // Sums may be missing of any thread of the cluster that has given up, in this round or before.
        const bool failed = patience_.gone() || failed_before(a_);
        each_piece([&](std::uint32_t p, std::uint32_t m, std::uint32_t eight) {
            const Piece sum = cluster_sum(m, eight);
            if (!failed) push(slot, epoch, p, m, sum);
        });
        ptx::cluster_arrive();
        if (!all_have_pushed(slot, epoch, failed)) return;
        if (!C::gather && last && threadIdx.x == 0) ptx::let_next_launch_begin();
        each_piece([&](std::uint32_t p, std::uint32_t m, std::uint32_t eight) {
            if (!gets(a_.rank, m)) return;
            const Piece more = added(m, eight);
            Piece sum{};
            for (std::uint32_t r = 0; r < a_.world; ++r) sum.add(pushed(slot, epoch, r, p));
            store(m, eight, sum, more);
        });
        if (threadIdx.x == 0) store_relaxed(a_.epochs + slot, epoch);
    }

    // Columns of the output that a block of the weights' rows is.
    PK_DEVICE std::uint32_t columns() const { return plan_.rows / (C::silu_mul ? 2 : 1); }

    PK_DEVICE Piece result(std::uint32_t m, std::uint32_t eight) const {
        Piece sum = cluster_sum(m, eight);
        if constexpr (C::silu_mul) {
            const Piece up = cluster_sum(m, eight + columns() / 8);
            PK_UNROLL
            for (std::uint32_t n = 0; n < 8; ++n) sum.v[n] = sum.v[n] / (1 + __expf(-sum.v[n])) * up.v[n];
        }
        return sum;
    }

    // The sums of the cluster's blocks, in their order.
    PK_DEVICE Piece cluster_sum(std::uint32_t m, std::uint32_t eight) const {
        const std::uint32_t at = sums_ + (m * sum_stride(plan_.rows) + eight * 8) * 4;
        Piece sum{};
        for (std::uint32_t s = 0; s < plan_.splits; ++s) {
            const std::uint32_t from = ptx::peer_address(at, s);
            const float4 low = ptx::load_peer(from), high = ptx::load_peer(from + 16);
            sum.add({{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}});
        }
        return sum;
    }

    // body(piece, m, eight) for those of this block of the cluster and of this thread.
    template <class Body>
    PK_DEVICE void each_piece(Body body) const {
        const std::uint32_t of_row = columns() / 8, all = a_.m * of_row;
        const std::uint32_t own = slot_pieces(a_.m, columns(), plan_.splits);
        if (threadIdx.x >= consumer_threads) return;
        _Pragma("unroll 1") for (std::uint32_t p = threadIdx.x; p < own; p += consumer_threads) {
            const std::uint32_t at = (p / stripe * plan_.splits + split_) * stripe + p % stripe;
            const std::uint32_t m = at / of_row, eight = at % of_row;
            if (at < all && column_ + eight * 8 < a_.n) body(p, m, eight);
        }
    }

    // A row of the output in the matrix of this rank.
    PK_DEVICE std::uint32_t own_row(std::uint32_t m) const {
        return m - (scatters ? a_.shards.begin(a_.rank) : 0);
    }

    // What is added to the sum of all ranks, once: the same on every rank that gets the row.
    PK_DEVICE Piece added(std::uint32_t m, std::uint32_t eight) const {
        const std::uint32_t column = column_ + eight * 8;
        Piece piece{};
        if constexpr (C::residual) {
            const std::uint64_t at = std::uint64_t{own_row(m)} * a_.residual_stride + column;
            piece.set_elements(ptx::load_past_l1(static_cast<const std::uint16_t*>(a_.residual) + at));
        }
        if constexpr (C::bias) {
            Piece bias;
            bias.set_elements(ptx::load_past_l1(static_cast<const std::uint16_t*>(a_.bias) + column));
            piece.add(bias);
        }
        return piece;
    }

    PK_DEVICE void store(std::uint32_t m, std::uint32_t eight, Piece sum, const Piece& more) const {
        const std::uint64_t at = std::uint64_t{own_row(m)} * a_.out_stride + column_ + eight * 8;
        if constexpr (C::bias || C::residual) sum.add(more);
        ptx::store_16(static_cast<std::uint16_t*>(a_.out) + at, sum.elements());
    }

    PK_DEVICE std::uint32_t* word(std::uint64_t which, std::uint32_t rank, std::uint32_t slot,
                                  std::uint32_t source) const {
        return a_.flags(rank, which) + slot * a_.world + source;
    }
    // Of a piece the 16 bytes at this address, and those half a slot on if it has as many.
    PK_DEVICE unsigned char* place(std::uint32_t rank, std::uint32_t slot, std::uint32_t epoch,
                                   std::uint32_t source, std::uint32_t p) const {
        const std::uint64_t at =
            (std::uint64_t{epoch & 1} * a_.workspace.narrow_slots + slot) * a_.world + source;
        return reinterpret_cast<unsigned char*>(a_.peers[rank]) + a_.workspace.narrow_places +
               at * a_.workspace.narrow_slot_bytes + p * 16;
    }

    // Whether a rank gets a row of the output.
    PK_DEVICE bool gets(std::uint32_t rank, std::uint32_t m) const {
        return !scatters || m - a_.shards.begin(rank) < a_.shards.count(rank);
    }

    // To everybody who gets the row, this rank too.
    PK_DEVICE void push(std::uint32_t slot, std::uint32_t epoch, std::uint32_t p, std::uint32_t m,
                        const Piece& sum) const {
        for (std::uint32_t n = 1, r = a_.rank; n <= a_.world; ++n) {
            r = r + 1 == a_.world ? 0 : r + 1;
            if (!gets(r, m)) continue;
            unsigned char* to = place(r, slot, epoch, a_.rank, p);
            if constexpr (whole) {
                ptx::store_16(to, sum.bits(0));
                ptx::store_16(to + a_.workspace.narrow_slot_bytes / 2, sum.bits(4));
            } else {
                ptx::store_16(to, sum.elements());
            }
        }
    }
    PK_DEVICE Piece pushed(std::uint32_t slot, std::uint32_t epoch, std::uint32_t source,
                           std::uint32_t p) const {
        const unsigned char* from = place(a_.rank, slot, epoch, source, p);
        Piece piece;
        if constexpr (whole) {
            piece.set_bits(0, ptx::load_past_l1(from));
            piece.set_bits(4, ptx::load_past_l1(from + a_.workspace.narrow_slot_bytes / 2));
        } else {
            piece.set_elements(ptx::load_past_l1(from));
        }
        return piece;
    }

    PK_DEVICE bool all_have_pushed(std::uint32_t slot, std::uint32_t epoch, bool failed) {
        __syncthreads();
        bool there = !failed;
        if (there && threadIdx.x < a_.world && threadIdx.x != a_.rank) {
            const std::uint32_t peer = threadIdx.x;
            // In turns, like the places.
            const std::uint64_t cards = a_.workspace.narrow_cards +
                                        std::uint64_t{epoch & 1} * a_.workspace.narrow_slots * a_.world * 4;
            store_relaxed(word(cards, peer, slot, a_.rank), a_.card);
            signal(word(a_.workspace.narrow_flags, peer, slot, a_.rank), epoch);
            there = patience_.flag(word(a_.workspace.narrow_flags, a_.rank, slot, peer), epoch, Wait::partial,
                                   slot, peer) &&
                    patience_.agree(a_.card, load_relaxed(word(cards, a_.rank, slot, peer)), peer);
        }
        return __syncthreads_and(there);
    }

    const Given& a_;
    const Plan& plan_;
    std::uint32_t sums_, split_, column_ = 0;  // column_: the first of the cluster's block
    Patience& patience_;
};

}  // namespace pk::lcsc::narrow
