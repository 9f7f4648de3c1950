// The host twins of the collectives: a thread for each block of threads, the same flags, plain memory but for
// the flags and counters that order it.
#pragma once

#include "pk/lcsc/host_element.hpp"
#include "pk/lcsc/host_together.hpp"

namespace pk::lcsc {

inline constexpr std::uint32_t piece_elements = 8;

// A block's part of a collective.
template <Collective What, class Type>
class HostMover {
public:
    HostMover(const Moves& moves, std::uint32_t sm, std::uint32_t sms) : m_(moves), sm_(sm), sms_(sms) {}

    void run() {
        HostTogether(m_, sm_, sms_).run([this] { move(); });
    }

private:
    static const std::uint16_t* piece(const void* base, std::uint64_t at) {
        return static_cast<const std::uint16_t*>(base) + at * piece_elements;
    }
    // No memcpy, of which ThreadSanitizer did not see the writes.
    static void store(void* base, std::uint64_t at, const std::uint16_t* from) {
        for (std::uint32_t e = 0; e < piece_elements; ++e)
            static_cast<std::uint16_t*>(base)[at * piece_elements + e] = from[e];
    }

    // Rows go round the threads; of an all-reduce a row is a piece.
    void move() {
        const std::uint64_t begin = m_.rows.begin(m_.rank), own = m_.rows.count(m_.rank);
        if constexpr (What == Collective::to_rows) {
            const std::uint64_t wide = m_.row_pieces / m_.world;
            for (std::uint32_t r = 0; r < m_.world; ++r) {
                for (std::uint64_t row = sm_; row < m_.rows.count(r); row += sms_) {
                    copy(m_.outs[r], row * m_.row_pieces + m_.rank * wide, (m_.rows.begin(r) + row) * wide,
                         wide);
                }
            }
        } else if constexpr (What == Collective::to_columns) {
            const std::uint64_t wide = m_.row_pieces / m_.world;
            for (std::uint64_t row = sm_; row < own; row += sms_) {
                for (std::uint32_t r = 0; r < m_.world; ++r)
                    copy(m_.outs[r], (begin + row) * wide, row * m_.row_pieces + r * wide, wide);
            }
        } else {
            for (std::uint64_t row = sm_; row < own; row += sms_) {
                for (std::uint64_t p = 0; p < m_.row_pieces; ++p)
                    move_piece(begin * m_.row_pieces, row * m_.row_pieces + p);
            }
        }
    }

    void copy(void* to, std::uint64_t at, std::uint64_t from, std::uint64_t pieces) const {
        for (std::uint64_t p = 0; p < pieces; ++p) store(to, at + p, piece(m_.ins[m_.rank], from + p));
    }

    // Piece `at` of this rank's rows, which begin at piece `begin`.
    void move_piece(std::uint64_t begin, std::uint64_t at) const {
        if constexpr (!sums(What)) {
            for (std::uint32_t r = 0; r < m_.world; ++r)
                store(m_.outs[r], begin + at, piece(m_.ins[m_.rank], at));
        } else {
            std::uint16_t result[piece_elements];
            for (std::uint32_t e = 0; e < piece_elements; ++e) {
                float sum = 0;
                for (std::uint32_t r = 0; r < m_.world; ++r)
                    sum += element<Type>(piece(m_.ins[r], begin + at)[e]);
                result[e] = rounded<Type>(sum);
            }
            if constexpr (What == Collective::scatter) {
                store(m_.outs[m_.rank], at, result);
            } else {
                for (std::uint32_t r = 0; r < m_.world; ++r) store(m_.outs[r], begin + at, result);
            }
        }
    }

    const Moves& m_;
    std::uint32_t sm_, sms_;
};

// A block's part of an all-reduce in one shot.
template <class Type>
class HostSmallSum {
public:
    HostSmallSum(const SmallSum& sum, std::uint32_t block)
        : m_(sum),
          block_(block),
          epoch_(sum.epochs[block] + 1),
          first_(std::uint64_t{block} * small_pieces * piece_elements),
          patience_(m_, block),
          straggler_(m_.rank, block, epoch_) {
        const std::uint64_t all = m_.pieces * piece_elements, left = all - (first_ < all ? first_ : all);
        count_ = left < small_pieces * piece_elements ? left : small_pieces * piece_elements;
    }

    void run() {
        straggler_.maybe_sleep();
        if (patience_.gone()) return;
        const auto* in = static_cast<const std::uint16_t*>(m_.in) + first_;
        for (std::uint32_t r = 0; r < m_.world; ++r) {
            if (r == m_.rank) continue;
            std::uint16_t* to = place(r, m_.rank);
            for (std::uint64_t e = 0; e < count_; ++e) to[e] = in[e];
            straggler_.maybe_sleep();
            store_relaxed(word(r, m_.block_card(block_, epoch_, m_.rank)), m_.card);
            signal_step<Step::signal_partial, Step::release_partial>(word(r, m_.block_flag(block_, m_.rank)),
                                                                     epoch_);
        }
        for (std::uint32_t r = 0; r < m_.world; ++r) {
            if (r == m_.rank) continue;
            const bool there = wait_step<Step::wait_partial, Step::acquire_partial>(
                patience_, word(m_.rank, m_.block_flag(block_, r)), epoch_, Wait::summand, block_, r);
            if (!there ||
                !patience_.agree(m_.card, load_relaxed(word(m_.rank, m_.block_card(block_, epoch_, r))), r))
                return;
        }
        straggler_.maybe_sleep();
        for (std::uint64_t e = 0; e < count_; ++e) {
            float sum = 0;
            for (std::uint32_t r = 0; r < m_.world; ++r)
                sum += element<Type>(r == m_.rank ? in[e] : place(m_.rank, r)[e]);
            static_cast<std::uint16_t*>(m_.out)[first_ + e] = rounded<Type>(sum);
        }
        if (kept(Step::advance_epoch)) m_.epochs[block_] = epoch_;
    }

private:
    std::uint16_t* place(std::uint32_t rank, std::uint32_t source) const {
        return reinterpret_cast<std::uint16_t*>(m_.peers[rank] + m_.place(block_, epoch_, source));
    }
    std::uint32_t* word(std::uint32_t rank, std::uint64_t at) const {
        return reinterpret_cast<std::uint32_t*>(m_.peers[rank] + at);
    }

    const SmallSum& m_;
    std::uint32_t block_, epoch_;
    std::uint64_t first_, count_;  // elements
    Patience patience_;
    Straggler straggler_;
};

}  // namespace pk::lcsc
