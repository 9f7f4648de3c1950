// The kernel's host twin: a thread for each SM, which does one after the other what the roles of a block do
// at the same time. Of inter_sm a thread that communicates is one agent. The same tiles in the same order,
// the same flags, and the same ends of a call; memory that peers share is plain but for the flags and
// counters that order it.
#pragma once

#include <cmath>
#include <cstring>

#include "pk/lcsc/copies.hpp"
#include "pk/lcsc/host_parts.hpp"
#include "pk/lcsc/host_peers.hpp"
#include "pk/lcsc/host_product.hpp"
#include "pk/lcsc/host_staging.hpp"

namespace pk::lcsc {

template <class C>
class HostBlock {
    using L = Layout<C>;

public:
    HostBlock(const Arguments& arguments, const HostWeights& weights, std::uint32_t sm, std::uint32_t sms,
              HostScratch<C>& scratch)
        : a_(arguments),
          weights_(weights),
          sm_(sm),
          sms_(sms),
          computing_(sms - communicating<C>(sms, 1)),
          agent_(inter_sm<C> ? sm - computing_ : sm),
          epoch_(load_relaxed(&arguments.state->epoch) + 1),
          order_(a_.shards, a_.world, weight_columns<C>(a_.n), grid(),
                 C::reduce == Reduce::none ? a_.rank : (a_.rank + 1) % a_.world),
          deal_(order_.count(), divide_up(a_.k, C::tile_k), computing_,
                inter_sm<C> ? 0
                            : HostParts<C>::sharing(order_.count(), divide_up(a_.k, C::tile_k), computing_)),
          scratch_(scratch),
          patience_(a_, sm),
          parts_(a_, epoch_, patience_),
          staging_(a_, epoch_, patience_),
          peers_(a_, epoch_, patience_),
          straggler_(a_.rank, sm, epoch_) {}

    void run() {
        straggler_.maybe_sleep();
        if (a_.copied) {
            if (agent_ == 0 && copy_rows()) peers_.show_card();
            if constexpr (C::keep_rows) keep_rows();
            compute_all();
        } else if (inter_sm<C> && sm_ < computing_) {
            compute_all();
        } else if (peers_.wait_for_buffers()) {
            if (agent_ == 0) peers_.show_card();
            if constexpr (C::gather) push_rows();
            if constexpr (C::keep_rows) keep_rows();
            if constexpr (!inter_sm<C>) {
                compute_all();
            } else if constexpr (C::reduce != Reduce::none) {
                push_tiles_of_threads();
            }
            if constexpr (C::reduce == Reduce::all) exchange_ends();
        }
        if (agent_ == 0) peers_.compare_cards();
        straggler_.maybe_sleep();
        peers_.end_call(sms_);
    }

private:
    static constexpr std::uint32_t tile_size = C::tile_m * C::tile_n;

    // A thread is a cluster of one.
    static constexpr TileGrid grid() { return {C::tile_m, C::tile_n, 1, C::group * members}; }

    std::uint32_t agents() const { return inter_sm<C> ? sms_ - computing_ : sms_; }

    std::uint32_t parity() const { return epoch_ & 1; }
    std::uint32_t buffer() const { return a_.copied ? 0 : parity(); }  // of gathered rows
    std::uint32_t* flags(std::uint32_t rank, std::uint64_t place) const { return a_.flags(rank, place); }
    std::uint32_t* partial_flag(const Tile& tile, std::uint32_t source, std::uint32_t pusher) const {
        return flags(tile.owner, a_.workspace.partial_flags) +
               (std::uint64_t{tile.slot} * a_.world + source) * pushers + pusher;
    }
    char* partial(const Tile& tile, std::uint32_t source) const {
        const std::uint64_t other = source < tile.owner ? source : source - 1;
        const std::uint64_t at = tile.slot * std::uint64_t{a_.world - 1} + other;
        return a_.peers[tile.owner] + a_.workspace.partials[parity()] + at * L::staged_bytes;
    }

    void compute_all() {
        std::uint32_t nth = 1;
        deal_.each_part(sm_, [&](const Part& part) {
            if (!patience_.gone()) compute(order_.at(part.place, 0), part, nth++);
        });
    }

    // all-gather: the units of Pusher::push_rows, those of this block's pushers one after the other.
    void push_rows() {
        const std::uint32_t rows = a_.shards.count(a_.rank), pieces = a_.k / 8;
        constexpr std::uint32_t unit_pieces = 1024;  // 16 KiB
        const std::uint32_t unit_rows = pieces < unit_pieces ? unit_pieces / pieces : 1;
        const std::uint32_t units_of_block = divide_up(C::tile_m, unit_rows);
        const std::uint32_t units = divide_up(rows, C::tile_m) * units_of_block;
        for (std::uint32_t first = agent_ * pushers; first < units; first += agents() * pushers) {
            for (std::uint32_t u = first; u < units && u < first + pushers; ++u) {
                const std::uint32_t of = u / units_of_block, at = of * C::tile_m;
                const std::uint32_t end = rows - at < C::tile_m ? rows : at + C::tile_m;
                const std::uint32_t begin = at + u % units_of_block * unit_rows;
                for (std::uint32_t row = begin; row < end && row < begin + unit_rows; ++row) push_row(row);
                finish_unit(of, units_of_block);
            }
        }
    }

    // all-gather by the copy engine, for which the first thread stands: to one buffer in every call.
    bool copy_rows() {
        if (!peers_.wait_done(epoch_ - 1)) return false;
        const std::uint32_t rows = a_.shards.count(a_.rank), blocks = divide_up(rows, C::tile_m);
        const std::uint32_t together = copied_blocks(a_.k, C::tile_m);
        for (std::uint32_t block = 0; block < blocks; block += together) {
            const std::uint32_t count = blocks - block < together ? blocks - block : together;
            for (std::uint32_t row = block * C::tile_m; row < rows && row < (block + count) * C::tile_m;
                 ++row)
                push_row(row);
            for (std::uint32_t b = block; b < block + count; ++b) signal_gathered(b);
        }
        return true;
    }

    void push_row(std::uint32_t row) {
        const auto* from = static_cast<const char*>(a_.shard) + std::uint64_t{row} * a_.shard_stride * 2;
        const std::uint64_t to =
            a_.workspace.gathered[buffer()] + (std::uint64_t{a_.shards.begin(a_.rank)} + row) * a_.k * 2;
        for (std::uint32_t n = 1; n < a_.world; ++n) {
            std::memcpy(a_.peers[(a_.rank + n) % a_.world] + to, from, std::uint64_t{a_.k} * 2);
        }
    }

    // The last of a block's units signals the block. What the others wrote goes to the peers by the chain of
    // their additions.
    void finish_unit(std::uint32_t of, std::uint32_t units_of_block) {
        straggler_.maybe_sleep();
        if (is_last<Step::order_units, Step::reset_units>(a_.gathered_counts + of, units_of_block))
            signal_gathered(of);
    }

    void signal_gathered(std::uint32_t of) {
        straggler_.maybe_sleep();
        for (std::uint32_t n = 1; n < a_.world; ++n) {
            const std::uint32_t peer = (a_.rank + n) % a_.world;
            signal_step<Step::signal_gathered, Step::release_gathered>(
                flags(peer, a_.workspace.gathered_flags) + a_.rank * a_.workspace.blocks + of, epoch_);
        }
    }

    // All rows to the caller's matrix, a block of a rank's rows after the other by the agents in turns.
    void keep_rows() {
        for (std::uint32_t n = 0; n < a_.world; ++n) {
            const std::uint32_t owner = (a_.rank + n) % a_.world, rows = a_.shards.count(owner);
            for (std::uint32_t of = agent_; of * C::tile_m < rows; of += agents()) {
                straggler_.maybe_sleep();
                const std::uint32_t end = rows < (of + 1) * C::tile_m ? rows : (of + 1) * C::tile_m;
                const std::uint16_t* from = static_cast<const std::uint16_t*>(a_.shard);
                std::uint64_t stride = a_.shard_stride;
                if (owner != a_.rank) {
                    wait_step<Step::wait_kept, Step::acquire_kept>(patience_, gathered_flag(owner, of),
                                                                   epoch_, Wait::gathered, of, owner);
                    if (patience_.gone()) return;
                    from = gathered_row(a_.shards.begin(owner));
                    stride = a_.k;
                }
                for (std::uint32_t row = of * C::tile_m; row < end; ++row) {
                    auto* to = static_cast<std::uint16_t*>(a_.full) +
                               (std::uint64_t{a_.shards.begin(owner)} + row) * a_.full_stride;
                    // No memcpy, of which ThreadSanitizer did not see the reads.
                    for (std::uint32_t c = 0; c < a_.k; ++c) to[c] = from[row * stride + c];
                }
            }
        }
    }

    const std::uint32_t* gathered_flag(std::uint32_t owner, std::uint32_t of) const {
        return flags(a_.rank, a_.workspace.gathered_flags) + owner * a_.workspace.blocks + of;
    }
    const std::uint16_t* gathered_row(std::uint32_t row) const {
        const char* gathered = a_.peers[a_.rank] + a_.workspace.gathered[buffer()];
        return reinterpret_cast<const std::uint16_t*>(gathered) + std::uint64_t{row} * a_.k;
    }

    void compute(const Tile& tile, const Part& part, std::uint32_t nth) {
        straggler_.maybe_sleep();
        const auto rows = rows_of(tile);
        if (patience_.gone()) return;
        multiply(tile, rows, part);
        if (!part.finishes) return parts_.give(sm_, scratch_.sums, straggler_);
        deal_.each_helper(sm_, part, [&](std::uint32_t helper) { parts_.add(helper, scratch_.sums); });
        if (patience_.gone()) return;
        if constexpr (C::reduce != Reduce::none) {
            if (tile.owner != a_.rank) return inter_sm<C> ? stage_tile(nth) : push_tile(tile);
            if (!add_partials(tile)) return;
        }
        store_tile(tile);
        if constexpr (C::reduce == Reduce::all) {
            if constexpr (inter_sm<C>) {
                staging_.hand_on(sm_, nth);
            } else {
                push_sum(tile);
            }
        }
    }

    HostRows rows_of(const Tile& tile) {
        const auto* own = static_cast<const std::uint16_t*>(a_.shard);
        if constexpr (C::gather) {
            if (tile.owner == a_.rank) {
                const std::uint32_t row = tile.row - a_.shards.begin(a_.rank);
                return {own + std::uint64_t{row} * a_.shard_stride, a_.shard_stride, tile.rows};
            }
            wait_step<Step::wait_gathered, Step::acquire_gathered>(
                patience_, gathered_flag(tile.owner, tile.block), epoch_, Wait::gathered, tile.block,
                tile.owner);
            return {gathered_row(tile.row), a_.k, tile.rows};
        }
        return {own + std::uint64_t{tile.row} * a_.shard_stride, a_.shard_stride, tile.rows};
    }

    void multiply(const Tile& tile, const HostRows& rows, const Part& part) {
        constexpr std::uint32_t half = C::tile_n / 2;
        const auto columns_of = [&](const void* weight, std::uint64_t stride, std::uint32_t column) {
            const auto* data = static_cast<const std::uint16_t*>(weight);
            return column < a_.n ? HostRows{data + column * stride, stride, a_.n - column} : HostRows{};
        };
        const std::uint32_t column = C::silu_mul ? tile.column / 2 : tile.column;
        const HostRows left = columns_of(weights_.weight, weights_.stride, column);
        const HostRows right = C::silu_mul ? columns_of(weights_.up, weights_.up_stride, column)
                                           : columns_of(weights_.weight, weights_.stride, column + half);
        multiply_tile<C>(rows, left, right, a_.k, part, scratch_);
    }

    using Partial = typename C::Partial;

    // To the owner; all rows of a tile, as on the GPU.
    void push_tile(const Tile& tile) {
        push_thirds(tile, [this](std::uint32_t i) { return summand(i); });
    }

    // A third by each pusher.
    template <class From>
    void push_thirds(const Tile& tile, From from) {
        auto* to = reinterpret_cast<Partial*>(partial(tile, a_.rank));
        constexpr std::uint32_t third = divide_up(tile_size, pushers);
        for (std::uint32_t pusher = 0; pusher < pushers; ++pusher) {
            const std::uint32_t end = pusher + 1 == pushers ? tile_size : (pusher + 1) * third;
            for (std::uint32_t i = pusher * third; i < end; ++i) to[i] = from(i);
            straggler_.maybe_sleep();
            signal_step<Step::signal_partial, Step::release_partial>(partial_flag(tile, a_.rank, pusher),
                                                                     epoch_);
        }
    }

    Partial summand(std::uint32_t i) const {
        if constexpr (sizeof(Partial) == 4) {
            return scratch_.sums[i];
        } else {
            return rounded<typename C::Type>(scratch_.sums[i]);
        }
    }

    // inter_sm: this thread's nth tile, to its agent.
    void stage_tile(std::uint32_t nth) {
        if (!staging_.wait_free(sm_, nth)) return;
        Partial* to = staging_.tile(sm_, nth);
        for (std::uint32_t i = 0; i < tile_size; ++i) to[i] = summand(i);
        straggler_.maybe_sleep();
        staging_.hand_on(sm_, nth);
    }

    // inter_sm: of the threads that this agent serves every one's first tile, then every one's second.
    void push_tiles_of_threads() {
        const std::uint32_t places = order_.count();
        std::uint32_t nth = 1;
        for (std::uint32_t first = 0; first < places; first += computing_, ++nth) {
            for (std::uint32_t of = agent_; of < computing_ && first + of < places; of += agents())
                push_tile_of(of, nth, order_.at(first + of, 0));
        }
    }
    void push_tile_of(std::uint32_t of, std::uint32_t nth, const Tile& tile) {
        const bool own = tile.owner == a_.rank;
        if ((own && C::reduce != Reduce::all) || !staging_.wait_full(of, nth)) return;
        straggler_.maybe_sleep();
        if (own) {
            push_sum(tile);
        } else {
            push_thirds(tile, [from = staging_.tile(of, nth)](std::uint32_t i) { return from[i]; });
        }
        staging_.give_back(of, nth);
    }

    template <class Body>
    void to_peers(Body body) const {
        for (std::uint32_t n = 1; n < a_.world; ++n) body((a_.rank + n) % a_.world);
    }

    // all-reduce: a tile from this rank's output to everybody's. Peers have begun the call, as each has sent
    // its summand of the tile, so what was in their outputs is not needed any more.
    void push_sum(const Tile& tile) {
        const std::uint32_t left = a_.n - tile.column, columns = left < C::tile_n ? left : C::tile_n;
        to_peers([&](std::uint32_t peer) {
            for (std::uint32_t r = 0; r < tile.rows; ++r) {
                const std::uint64_t at = (std::uint64_t{tile.row} + r) * a_.out_stride + tile.column;
                // No memcpy, of which ThreadSanitizer did not see the writes.
                for (std::uint32_t c = 0; c < columns; ++c) {
                    static_cast<std::uint16_t*>(a_.outs[peer])[at + c] =
                        static_cast<const std::uint16_t*>(a_.outs[a_.rank])[at + c];
                }
            }
        });
    }

    // This agent has pushed all its sums; and so have its like at the other ranks.
    void exchange_ends() {
        if (patience_.gone()) return;
        straggler_.maybe_sleep();
        const std::uint32_t all = agents() * pushers, mine = agent_ * pushers;
        to_peers([&](std::uint32_t peer) {
            signal_step<Step::signal_end, Step::release_end>(
                flags(peer, a_.workspace.ends) + a_.rank * all + mine, epoch_);
        });
        to_peers([&](std::uint32_t peer) {
            wait_step<Step::wait_end, Step::acquire_end>(
                patience_, flags(a_.rank, a_.workspace.ends) + peer * all + mine, epoch_, Wait::peer_end,
                mine, peer);
        });
    }

    // Adds the summands of the other ranks, in the order of the ranks: the same order in every call.
    bool add_partials(const Tile& tile) {
        for (std::uint32_t n = 0; n < a_.world * pushers; ++n) {
            const std::uint32_t source = n / pushers;
            if (source == a_.rank) continue;
            wait_step<Step::wait_partial, Step::acquire_partial>(
                patience_, partial_flag(tile, source, n % pushers), epoch_, Wait::partial, tile.slot, source);
        }
        if (patience_.gone()) return false;
        for (std::uint32_t source = 0; source < a_.world; ++source) {
            if (source == a_.rank) continue;
            const auto* from = reinterpret_cast<const Partial*>(partial(tile, source));
            for (std::uint32_t i = 0; i < tile_size; ++i) {
                if constexpr (sizeof(Partial) == 4) {
                    scratch_.sums[i] += from[i];
                } else {
                    scratch_.sums[i] += element<typename C::Type>(from[i]);
                }
            }
        }
        return true;
    }

    void store_tile(const Tile& tile) {
        using Type = typename C::Type;
        const std::uint32_t first = tile.row - (C::reduce == Reduce::scatter ? a_.shards.begin(a_.rank) : 0);
        const std::uint32_t column = C::silu_mul ? tile.column / 2 : tile.column;
        const std::uint32_t wide = C::silu_mul ? C::tile_n / 2 : C::tile_n;
        const std::uint32_t columns = a_.n - column < wide ? a_.n - column : wide;
        for (std::uint32_t r = 0; r < tile.rows; ++r) {
            const std::uint64_t row = std::uint64_t{first} + r;
            auto* out = static_cast<std::uint16_t*>(a_.outs[a_.rank]) + row * a_.out_stride + column;
            [[maybe_unused]] const std::uint64_t from = row * a_.residual_stride + column;
            const float* sums = &scratch_.sums[r * C::tile_n];
            for (std::uint32_t c = 0; c < columns; ++c) {
                float added = 0;
                if constexpr (C::residual) {
                    added = element<Type>(static_cast<const std::uint16_t*>(a_.residual)[from + c]);
                }
                if constexpr (C::bias) {
                    added += element<Type>(static_cast<const std::uint16_t*>(a_.bias)[column + c]);
                }
                const float gate = sums[c];
                const float sum = C::silu_mul ? gate / (1 + std::exp(-gate)) * sums[wide + c] : gate;
                out[c] = rounded<Type>(sum + added);
            }
        }
    }

    const Arguments& a_;
    const HostWeights& weights_;
    std::uint32_t sm_, sms_;
    std::uint32_t computing_;  // threads: the first ones
    std::uint32_t agent_;      // of a thread that communicates
    std::uint32_t epoch_;
    TileOrder order_;
    Deal deal_;
    HostScratch<C>& scratch_;
    Patience patience_;
    HostParts<C> parts_;
    HostStaging<C> staging_;
    HostPeers peers_;
    Straggler straggler_;
};

}  // namespace pk::lcsc
