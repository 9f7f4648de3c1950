// Products of few rows, whatever is gathered before and reduced after. Time is that of reading the weight
// once, so everything else is kept out of its way.
//
// The rows of the weight are the rows of the tensor cores' product, so that few columns cost little. A
// cluster has a block of rows, and each of its blocks a part of the sum over k, which goes through a ring in
// its shared memory. The parts are added within the cluster, each block some pieces of the block of rows.
// Where ranks add up, these the blocks push to the workspaces of their like at the other ranks, and add what
// those have pushed. All additions have an order that never changes. Rows that are gathered are sent by the
// consumers, before they have anything to consume.
//
// Places are used in turns (SmallSum in moves.hpp says why two are enough), and no flag is ever reset.
#pragma once

#include "pk/lcsc/layout.hpp"
#include "pk/lcsc/narrow_exchange.hpp"
#include "pk/lcsc/narrow_gather.hpp"
#include "pk/ptx/dependent_launch.hpp"
#include "pk/ptx/named_barrier.hpp"
#include "pk/ptx/narrow_tile.hpp"
#include "pk/ptx/shared_load.hpp"

namespace pk::lcsc::narrow {

// C: as in layout.hpp. M: padded(m).
template <class C, std::uint32_t M>
class Run {
    static constexpr std::uint32_t groups = tile_groups(M), parts = step_parts(M), tiles = group_tiles(M);
    static constexpr std::uint32_t eights = M / 8, sums = M / 2;  // of a tile and thread

public:
    struct Barriers {
        std::uint64_t full[max_stages], empty[max_stages];
    };

    PK_DEVICE Run(const Given& given, unsigned char* shared, Barriers& barriers)
        : a_(given),
          plan_(given.plan),
          memory_(shared + (-ptx::shared_address(shared) & 1023)),
          ring_(ptx::shared_address(memory_)),
          split_(blockIdx.x % given.plan.splits),
          full_(ptx::held_address(barriers.full)),
          empty_(ptx::held_address(barriers.empty)),
          turns_((given.k + 64 * given.plan.depth - 1) / (64 * given.plan.depth)),
          begin_(turns_ * split_ / given.plan.splits),
          end_(turns_ * (split_ + 1) / given.plan.splits),
          patience_(given, blockIdx.x, over_ranks<C> && failed_before(given)) {}

    // Before there is a run: what does not depend on the launches before this one.
    PK_DEVICE static void prepare(const Given& given, Barriers& barriers) {
        if (threadIdx.x == 0) {
            for (std::uint32_t s = 0; s < given.plan.stages; ++s) {
                ptx::mbarrier_init(&barriers.full[s], loaders);
                ptx::mbarrier_init(&barriers.empty[s], consumer_warps);
            }
            ptx::mbarrier_init_fence();
            if constexpr (!over_ranks<C>) ptx::let_next_launch_begin();
        }
        if (threadIdx.x == consumer_threads) {
            ptx::prefetch_map(given.weight);
            ptx::prefetch_map(given.rows[0]);
        }
        __syncthreads();
    }

    PK_DEVICE void run() {
        const std::uint32_t warp = threadIdx.x / 32;
        if constexpr (C::gather) {
            if (gathers() && warp < consumer_warps) FewRows(a_, patience_).send();
        }
        for (std::uint32_t block = blockIdx.x / plan_.splits; block < plan_.blocks; block += plan_.clusters) {
            const std::uint32_t row = block * plan_.rows;
            if (warp >= consumer_warps) {
                if (threadIdx.x == consumer_threads) load_weight(row);
                if (threadIdx.x == consumer_threads + 32) load_rows();
                __syncwarp();
                __syncthreads();
            } else {
                float c[tiles][sums] = {};
                const std::uint32_t group = warp / (consumer_warps / groups),
                                    mine = plan_.rows / tile_rows(M);
                multiply(group < mine ? (mine - group - 1) / groups + 1 : 0, group, c);
                patience_.outlive_copies();
                __syncthreads();  // the ring has been read
                keep(group, c);
                if constexpr (parts > 1) add_parts();
            }
            ptx::cluster_sync();
            Exchange<C>(a_, ring_, patience_).run(block, block + plan_.clusters >= plan_.blocks);
            ptx::fence_proxy_async_shared();
            ptx::cluster_wait();  // the sums have been read
        }
        if constexpr (C::gather) {
            if (gathers()) FewRows(a_, patience_).end();
        }
    }

private:
    // Where a step of a stage lies: rows of the weight, then those of the activations.
    PK_DEVICE std::uint32_t step_at(std::uint32_t slot, std::uint32_t step) const {
        return ring_ + (slot * plan_.depth + step) * step_bytes(M, plan_.rows);
    }
    PK_DEVICE std::uint32_t full(std::uint32_t slot) const { return full_ + slot * 8; }
    PK_DEVICE std::uint32_t empty(std::uint32_t slot) const { return empty_ + slot * 8; }
    PK_DEVICE void advance() {
        if (++slot_ == plan_.stages) {
            slot_ = 0;
            parity_ ^= 1;
        }
    }

    PK_DEVICE bool gathers() const { return C::gather && a_.world > 1; }

    // One thread: the rows of the weight (or of both, one half each) from `row` on, stage after stage. Of
    // steps past the end come zeros.
    PK_DEVICE void load_weight(std::uint32_t row) {
        load(plan_.rows * 128, [&](std::uint32_t to, std::uint32_t k, std::uint32_t full) {
            if constexpr (C::silu_mul) {
                ptx::tensor_load(to, a_.weight, row / 2, k, full);
                ptx::tensor_load(to + plan_.rows / 2 * 128, a_.up, row / 2, k, full);
            } else {
                ptx::tensor_load(to, a_.weight, row, k, full);
            }
        });
    }
    // Another thread, which alone waits for rows that are still on their way: the activations.
    PK_DEVICE void load_rows() {
        if constexpr (C::gather) {
            if (!gathered_) gathered_ = FewRows(a_, patience_).wait();
            if (!gathered_) return;
        }
        load(a_.m * 128, [&](std::uint32_t to, std::uint32_t k, std::uint32_t full) {
            ptx::tensor_load(to + plan_.rows * 128, a_.rows[turn_], 0, k, full);
        });
    }

    // step(to, k, full): the copies of a step, of `bytes`.
    template <class Step>
    PK_DEVICE void load(std::uint32_t bytes, Step step) {
        for (std::uint32_t turn = begin_; turn < end_; ++turn) {
            const bool free = patience_.until(
                [&](std::uint32_t& seen) {
                    seen = turn;
                    return ptx::mbarrier_try_wait(empty(slot_), parity_ ^ 1);
                },
                Wait::page_empty, slot_, a_.rank, parity_ ^ 1);
            if (!free) break;
            ptx::mbarrier_arrive_expect_tx(full(slot_), plan_.depth * bytes);
            for (std::uint32_t s = 0; s < plan_.depth; ++s)
                step(step_at(slot_, s), (turn * plan_.depth + s) * 64, full(slot_));
            advance();
        }
        patience_.outlive_copies();
    }

    // c[t]: the sums of tile group + t * groups of the block's rows, of `count` tiles; as the product leaves
    // them.
    template <std::uint32_t Count = tiles>
    PK_DEVICE void multiply(std::uint32_t count, std::uint32_t group, float (&c)[tiles][sums]) {
        if constexpr (Count == 0) {
            for (std::uint32_t turn = begin_; turn < end_; ++turn) {
                if (!wait_full()) break;
                release(slot_);
                advance();
            }
        } else if (count < Count) {
            multiply<Count - 1>(count, group, c);
        } else if constexpr (wide(M)) {
            multiply_wide<Count>(group, c);
        } else {
            multiply_narrow<Count>(group, c);
        }
    }

    PK_DEVICE bool wait_full() {
        return patience_.until_all(
            [&](std::uint32_t& seen) {
                seen = parity_ ^ 1;
                return ptx::mbarrier_try_wait(full(slot_), parity_);
            },
            Wait::page_full, slot_, a_.rank, parity_);
    }
    PK_DEVICE void release(std::uint32_t slot) {
        __syncwarp();
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty(slot));
    }

    template <std::uint32_t Count>
    PK_DEVICE void multiply_narrow(std::uint32_t group, float (&c)[tiles][sums]) {
        const std::uint32_t lane = threadIdx.x % 32, part = threadIdx.x / 32 % parts, swizzle = lane % 8;
        const std::uint32_t weight_row = (group * 16 + lane % 16) * 128, weight_piece = lane / 16;
        const std::uint32_t column = (eights == 1 ? 0 : lane / 16 * 8) + lane % 8;
        const std::uint32_t column_piece = lane / 8 % 2, columns = plan_.rows * 128 + column * 128;
        for (std::uint32_t turn = begin_; turn < end_; ++turn) {
            if (!wait_full()) break;
            _Pragma("unroll 1") for (std::uint32_t step = 0; step < plan_.depth; ++step) {
                const std::uint32_t at = step_at(slot_, step);
                PK_UNROLL
                for (std::uint32_t n = 0; n < 4 / parts; ++n) {
                    const std::uint32_t q = part * (4 / parts) + n;
                    const std::uint32_t weight = at + weight_row + ((q * 2 + weight_piece) ^ swizzle) * 16;
                    std::uint32_t w[Count][4], b[(eights + 1) / 2][4];
                    PK_UNROLL
                    for (std::uint32_t e = 0; e < (eights + 1) / 2; ++e) {
                        ptx::load_matrices(b[e],
                                           at + columns + e * 2048 + ((q * 2 + column_piece) ^ swizzle) * 16);
                    }
                    PK_UNROLL
                    for (std::uint32_t t = 0; t < Count; ++t)
                        ptx::load_matrices(w[t], weight + t * groups * 2048);
                    PK_UNROLL
                    for (std::uint32_t t = 0; t < Count; ++t) {
                        PK_UNROLL
                        for (std::uint32_t e = 0; e < eights; ++e) {
                            ptx::mma_m16n8k16(c[t] + e * 4, w[t], b[e / 2] + e % 2 * 2, typename C::Type{});
                        }
                    }
                }
            }
            release(slot_);
            advance();
        }
    }

    template <std::uint32_t Count>
    PK_DEVICE void multiply_wide(std::uint32_t group, float (&c)[tiles][sums]) {
        std::uint32_t last = 0;
        for (std::uint32_t turn = begin_; turn < end_; ++turn) {
            if (!wait_full()) break;
            const std::uint32_t at = step_at(slot_, 0);  // the only one: plan()
            ptx::wgmma_fence();
            PK_UNROLL
            for (std::uint32_t q = 0; q < 4; ++q) {
                const std::uint64_t b = ptx::wgmma_rows_of_128(at + plan_.rows * 128) + q * 2;
                PK_UNROLL
                for (std::uint32_t t = 0; t < Count; ++t) {
                    const std::uint64_t w = ptx::wgmma_rows_of_128(at + (group + t * groups) * 8192) + q * 2;
                    if constexpr (M == 64) {
                        ptx::wgmma_m64n64k16(c[t], w, b, typename C::Type{});
                    } else {
                        ptx::wgmma_m64n128k16(c[t], w, b, true, typename C::Type{});
                    }
                }
            }
            ptx::wgmma_commit();
            ptx::wgmma_wait<1>();
            if (turn != begin_) release(last);
            last = slot_;
            advance();
        }
        ptx::wgmma_wait<0>();
        PK_UNROLL
        for (std::uint32_t t = 0; t < Count; ++t) ptx::wgmma_done(c[t]);
        if (begin_ != end_) release(last);
    }

    // The sums to shared memory: [part][m][sum_stride].
    PK_DEVICE void keep(std::uint32_t group, const float (&c)[tiles][sums]) {
        const std::uint32_t g = threadIdx.x % 32 / 4, i = threadIdx.x % 4, stride = sum_stride(plan_.rows);
        const std::uint32_t warp = threadIdx.x / 32, part = wide(M) ? 0 : warp % parts;
        float* to = reinterpret_cast<float*>(memory_) + part * (M * stride) + i * 2 * stride;
        PK_UNROLL
        for (std::uint32_t t = 0; t < tiles; ++t) {
            const std::uint32_t first = (group + t * groups) * tile_rows(M);
            if (first >= plan_.rows) break;
            const std::uint32_t row = first + (wide(M) ? warp % 4 * 16 : 0) + g;
            PK_UNROLL
            for (std::uint32_t n = 0; n < sums; ++n)
                to[(n / 4 * 8 + n % 2) * stride + row + n / 2 % 2 * 8] = c[t][n];
        }
    }

    // The parts of the consumers' sums to the first, in their order.
    PK_DEVICE void add_parts() const {
        ptx::named_barrier_sync<consumer_threads>(1);
        const std::uint32_t all = M * sum_stride(plan_.rows) / 4;
        float4* at = reinterpret_cast<float4*>(memory_);
        for (std::uint32_t p = threadIdx.x; p < a_.m * (sum_stride(plan_.rows) / 4); p += consumer_threads) {
            float4 sum = at[p];
            PK_UNROLL
            for (std::uint32_t n = 1; n < parts; ++n) {
                const float4 v = at[p + n * all];
                sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
            }
            at[p] = sum;
        }
    }

    const Given& a_;
    const Plan& plan_;
    unsigned char* memory_;
    std::uint32_t ring_, split_, full_, empty_;
    std::uint32_t turns_, begin_, end_;    // of stages: in all, and this block's
    std::uint32_t slot_ = 0, parity_ = 0;  // of the ring
    bool gathered_ = !gathers();
    std::uint32_t turn_ =
        gathers() ? (load_relaxed(&a_.state->epoch) + 1) & 1 : 0;  // of the places of gathered rows
    Patience patience_;
};

// Clusters of plan.splits blocks, block_size threads, shared_bytes of shared memory.
template <class C, std::uint32_t M>
__global__ void __launch_bounds__(block_size, 1) narrow_product(const __grid_constant__ Given given) {
#if PK_SM90
    extern __shared__ unsigned char narrow_shared[];
    __shared__ typename Run<C, M>::Barriers barriers;
    Run<C, M>::prepare(given, barriers);
    ptx::wait_for_launches_before();
    Run<C, M>(given, narrow_shared, barriers).run();
#endif
}

}  // namespace pk::lcsc::narrow
