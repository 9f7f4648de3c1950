// A collective by itself, as a kernel runs it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pk/engine/card.hpp"
#include "pk/engine/collective_plan.hpp"
#include "pk/engine/shared_memory.hpp"
#if PK_CUDA
#include "pk/engine/cuda_collective.hpp"
#else
#include "pk/engine/host_collective.hpp"
#endif

namespace pk::engine {

#if PK_CUDA
template <class C>
using CollectiveDevice = CudaCollective<C>;
#else
template <class C>
using CollectiveDevice = HostCollective<C>;
#endif

// Given: Config, which has Type and collective; the Dims m and n; and what Kernel wants of a Program.
template <class Given>
class Collective {
    using What = lcsc::Collective;
    static constexpr What what = Given::Config::collective;
    static constexpr bool swaps = what == What::to_columns || what == What::to_rows;
    static constexpr bool rows_in = what == What::gather || what == What::to_columns;
    static constexpr bool rows_out = what == What::scatter || what == What::to_rows;

    // A rank's part of a matrix.
    struct Part {
        std::uint64_t rows, columns, stride;  // elements
        bool everybody;                       // every rank has rows of it, or has one: all see gaps, or none

        bool dense() const { return stride == columns || rows <= 1; }
        std::uint64_t pieces() const { return rows * columns / elements_of_16_bytes; }
    };

public:
    using Program = Given;
    using Device = CollectiveDevice<typename Program::Config>;
    using Arguments = CollectiveArguments;

    struct Checked {
        Sizes sizes;
        Part in, out;
    };

    static void check_sizes(std::uint32_t world) {
        if (Program::n.field == nullptr)
            (void)part_of(Program::n, Program::n.first, world, elements_of_16_bytes, "");
    }

    static CollectivePlan plan(std::uint32_t world) {
        const std::uint32_t n = Program::n.last / (Program::n.split ? world : 1);
        return plan_collective(what, world, {Program::m.last, n, 0});
    }

    static void fill(Arguments& a, const CollectivePlan& plan) {
        a.plan = plan;
        a.told = plan.told;
    }

    static Checked check(const Call& call, std::uint32_t rank, std::uint32_t world) {
        const Sizes sizes{part_of(Program::m, call.m, world, 1, "arguments."),
                          part_of(Program::n, call.n, world, elements_of_16_bytes, "arguments."), 0};
        const lcsc::PieceShards shards = lcsc::deal_pieces(sizes.m, world);
        const auto part = [&](bool rows, const Matrix& matrix) {
            Part found{rows ? shards.count(rank) : sizes.m,
                       std::uint64_t{sizes.n} * (swaps && rows ? world : 1), 0,
                       !rows || shards.count(world - 1) > 1 || shards.count(world - 1) == shards.each};
            found.stride = checked_matrix(matrix, static_cast<std::uint32_t>(found.rows),
                                          static_cast<std::uint32_t>(found.columns));
            return found;
        };
        const Part in = part(rows_in, call.rows), out = part(rows_out, call.output);
        const bool in_place = what == What::all_reduce && in.stride == out.stride;
        check_apart({call.output, out.rows, out.columns, out.stride},
                    {call.rows, in.rows, in.columns, in.stride}, in_place);
        return {sizes, in, out};
    }

    // What the kernel cannot use where it is goes through the workspace: rows with gaps, and what peers read
    // or write and have not been shown.
    static void enqueue(Device& device, const Arguments& common, const SharedMemory& shared, const Call& call,
                        const Checked& checked, void* stream) {
        const auto& [sizes, in, out] = checked;
        const Place input{const_cast<void*>(call.rows.data), in, common.plan.in};
        const Place output{const_cast<void*>(call.output.data), out, common.plan.out};
        if (is_small(device, in)) return enqueue_small(device, common, sizes, input, output, stream);
        lcsc::Moves moves{};
        static_cast<lcsc::Call&>(moves) = common;
        if constexpr (what == What::all_reduce) {
            moves.rows = lcsc::deal_pieces(in.pieces(), common.world);
            moves.row_pieces = 1;
        } else {
            moves.rows = lcsc::deal_pieces(sizes.m, common.world);
            moves.row_pieces = std::uint64_t{sizes.n} * (swaps ? common.world : 1) / elements_of_16_bytes;
        }
        const PartBytes most = part_bytes(what, sizes, common.world);
        void* ins[lcsc::max_ranks] = {};
        const std::uint64_t in_at =
            lcsc::sums(what) ? find(common, shared, input, most.in, ins) : use_own(common, input, ins);
        const std::uint64_t out_at = what != What::scatter
                                         ? find(common, shared, output, most.out, moves.outs)
                                         : use_own(common, output, moves.outs);
        std::copy_n(ins, common.world, moves.ins);
        moves.card = card_of({sizes.m, sizes.n, in_at, out_at});
        const RowCopy before = ins[common.rank] == input.data ? RowCopy{} : input.copy_in(common);
        const RowCopy after = moves.outs[common.rank] == output.data ? RowCopy{} : output.copy_out(common);
        device.run(before, moves, after, stream);
    }

private:
    // A matrix of the caller, and a place for it in the workspace.
    struct Place {
        void* data;
        Part part;
        std::uint64_t place;

        void* own(const Arguments& common) const { return common.peers[common.rank] + place; }
        RowCopy copy_in(const Arguments& common) const {
            return {own(common), data, part.columns * 2, part.stride * 2, part.columns * 2, part.rows};
        }
        RowCopy copy_out(const Arguments& common) const {
            return {data, own(common), part.stride * 2, part.columns * 2, part.columns * 2, part.rows};
        }
    };

    static bool is_small(const Device& device, const Part& in) {
        const std::uint64_t pieces = in.pieces();
        return what == What::all_reduce && pieces <= lcsc::small_most &&
               lcsc::small_blocks(pieces) <= device.sms();
    }

    static void enqueue_small(Device& device, const Arguments& common, const Sizes& sizes, const Place& in,
                              const Place& out, void* stream) {
        lcsc::SmallSum sum{};
        static_cast<lcsc::Call&>(sum) = common;
        sum.in = in.part.dense() ? in.data : in.own(common);
        sum.out = out.part.dense() ? out.data : out.own(common);
        sum.pieces = in.part.pieces();
        sum.epochs = common.epochs;
        sum.block_cards = common.plan.small_cards;
        sum.block_flags = common.plan.small_flags;
        sum.places = common.plan.small_places;
        sum.card = card_of({sizes.m, sizes.n});
        device.run(in.part.dense() ? RowCopy{} : in.copy_in(common), sum,
                   out.part.dense() ? RowCopy{} : out.copy_out(common), stream);
    }

    // Where a matrix of every rank is: where the callers have it, in memory that was shown, or in the
    // workspaces. Returns its place in the memory that was shown. `most`: bytes of the largest part, as all
    // ranks must find the same.
    static std::uint64_t find(const Arguments& common, const SharedMemory& shared, const Place& matrix,
                              std::uint64_t most, void* (&at)[lcsc::max_ranks]) {
        // A rank without rows has none of the matrix to show, and a single row has no gaps that show.
        if (matrix.part.dense() && matrix.part.everybody) {
            const auto found = shared.find(matrix.data, most, common.world, at);
            if (found) return *found;
        }
        for (std::uint32_t r = 0; r < common.world; ++r) at[r] = common.peers[r] + matrix.place;
        return not_shared;
    }

    // Where only this rank's counts.
    static std::uint64_t use_own(const Arguments& common, const Place& matrix, void* (&at)[lcsc::max_ranks]) {
        at[common.rank] = matrix.part.dense() ? matrix.data : matrix.own(common);
        return not_shared;
    }
};

}  // namespace pk::engine
