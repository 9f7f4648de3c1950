// Grouped-query attention of one KV head of one sequence: the keys and values of the step's rows go to the
// paged cache, then each row attends to all positions up to its own.
#pragma once

#include "mpk/tasks/rows.hpp"
#include "pk/memory/paged_rows.hpp"
#include "pk/tile/rope.hpp"
#if PK_CUDA
#include "pk/tile/attend_cuda.hpp"
#else
#include "pk/tile/attend_host.hpp"
#endif

namespace mpk::tasks {

template <class V>
struct Attention {
    static_assert(V::head % 8 == 0 && V::head <= 256, "a head has a multiple of 8 channels, at most 256");
    static_assert(V::kv_page % 8 == 0, "a page of the KV cache has a multiple of 8 tokens");
    static_assert(V::heads % V::kv_heads == 0, "query heads come in equal groups, one a KV head");

    static constexpr std::uint32_t group = V::heads / V::kv_heads;
    // Query heads that are worked on together, so that a key is read once for all of them.
    static constexpr std::uint32_t passes = (group + 3) / 4;
    static constexpr std::uint32_t together = (group + passes - 1) / passes;

    using Rows = pk::memory::PagedRows<V::kv_page, V::head, V::kv_heads>;
    using Scratch = pk::tile::AttendScratch<together, V::head>;
    static constexpr std::uint32_t scratch_bytes = sizeof(Scratch);

    PK_DEVICE static bool active(const Machine& m, const Task& task) {
        return m.step.rows_of[task.begin] != 0;
    }

    PK_DEVICE static void run(Context& ctx) {
        const Machine& m = ctx.machine;
        const std::uint32_t s = ctx.task.begin;
        const std::uint32_t count = m.step.rows_of[s];
        if (count == 0) return;
        const Work work{ctx.tensor<const float>(V::slot::qkv),
                        ctx.tensor<pk::tile::bf16>(V::slot::out),
                        q_norm(ctx),
                        Rows(m.kv.data, static_cast<std::uint64_t>(ctx.op.layer), m.kv.pages, ctx.task.index,
                             m.kv.page_table + std::uint64_t{s} * m.kv.pages_per_sequence),
                        m.step.first_row[s],
                        m.step.position[m.step.first_row[s]],
                        ctx.task.index};
        for (std::uint32_t r = pk::warp(); r < count; r += pk::block_warps) append(work, r, k_norm(ctx));
        pk::sync_block();  // the step's own keys are read back from the cache
        attend(work, count, *static_cast<Scratch*>(ctx.scratch));
    }

private:
    static constexpr std::uint64_t qkv_stride = pk::tile::padded((V::heads + 2 * V::kv_heads) * V::head);
    static constexpr std::uint64_t out_stride = pk::tile::padded(V::heads * V::head);

    struct Work {
        const float* qkv;
        pk::tile::bf16* out;
        const pk::tile::bf16* q_norm;
        Rows rows;
        std::uint32_t first_row, first_position, kv_head;
    };

    PK_DEVICE static const pk::tile::bf16* q_norm(const Context& ctx) {
        if constexpr (V::has_q_norm) return ctx.tensor<const pk::tile::bf16>(V::slot::q_norm);
        return nullptr;
    }

    PK_DEVICE static const pk::tile::bf16* k_norm(const Context& ctx) {
        if constexpr (V::has_k_norm) return ctx.tensor<const pk::tile::bf16>(V::slot::k_norm);
        return nullptr;
    }

    // Row r of the task: its key, normed and rotated, and its value go to the cache. One warp.
    PK_DEVICE static void append(const Work& work, std::uint32_t r, const pk::tile::bf16* norm) {
        const std::uint32_t position = work.first_position + r;
        const float* qkv = work.qkv + (work.first_row + r) * qkv_stride;
        const float* k = qkv + (V::heads + work.kv_head) * V::head;
        const float* v = k + V::kv_heads * V::head;
        pk::tile::bf16* key = work.rows.key(position);
        pk::tile::bf16* value = work.rows.value(position);
        pk::tile::norm_and_rotate<V, V::has_k_norm>(
            k, norm, pk::tile::rope_angles<V>(position),
            [=](std::uint32_t channel, float x) { key[channel] = pk::tile::to_bf16(x); });
        for (std::uint32_t c = pk::lane(); c < V::head; c += pk::warp_lanes)
            value[c] = pk::tile::to_bf16(v[c]);
    }

    // The queries of heads [first, first + together) of the group for row r, scaled, in `query`. One warp.
    // Heads past the group repeat its last one.
    PK_DEVICE static void prepare(const Work& work, std::uint32_t r, std::uint32_t first,
                                  float (&query)[together][V::head]) {
        const float* qkv = work.qkv + (work.first_row + r) * qkv_stride + work.kv_head * group * V::head;
        const auto angles = pk::tile::rope_angles<V>(work.first_position + r);
        pk::sync_warp();  // the queries before have been read
        for (std::uint32_t h = 0; h < together; ++h) {
            const std::uint32_t head = first + h < group ? first + h : group - 1;
            pk::tile::norm_and_rotate<V, V::has_q_norm>(
                qkv + head * V::head, work.q_norm, angles, [&](std::uint32_t channel, float x) {
                    query[h][channel] = x * static_cast<float>(V::scale);
                });
        }
        pk::sync_warp();
    }

    PK_DEVICE static void attend(const Work& work, std::uint32_t count, Scratch& scratch) {
        const std::uint32_t units = count * passes;
        const auto store = [&](std::uint32_t unit) {
            pk::tile::bf16* out =
                work.out + (work.first_row + unit / passes) * out_stride + work.kv_head * group * V::head;
            const std::uint32_t first = unit % passes * together;
            return [=](std::uint32_t h, std::uint32_t channel, float x) {
                if (first + h < group) out[(first + h) * V::head + channel] = pk::tile::to_bf16(x);
            };
        };
#if PK_CUDA
        if (units >= pk::block_warps) {
            for (std::uint32_t unit = pk::warp(); unit < units; unit += pk::block_warps) {
                prepare(work, unit / passes, unit % passes * together, scratch.query[pk::warp()]);
                pk::tile::attend_by_warp(scratch.query[pk::warp()], work.rows,
                                         work.first_position + unit / passes, store(unit));
            }
            return;
        }
        for (std::uint32_t unit = 0; unit < units; ++unit) {
            prepare(work, unit / passes, unit % passes * together, scratch.query[pk::warp()]);
            pk::tile::attend_by_block(scratch, work.rows, work.first_position + unit / passes, store(unit));
        }
#else
        for (std::uint32_t unit = 0; unit < units; ++unit) {
            prepare(work, unit / passes, unit % passes * together, scratch.query[0]);
            pk::tile::attend(scratch, work.rows, work.first_position + unit / passes, store(unit));
        }
#endif
    }
};

}  // namespace mpk::tasks
