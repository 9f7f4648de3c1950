// The warp that fills the ring. Weights do not depend on anything, so it loads those of a product's first
// stages before it waits for the blocks that compute its activations.
#pragma once

#include "mpk/cluster/attention.hpp"
#include "mpk/cluster/prefill/buffers.hpp"
#include "mpk/cluster/prefill/keys.hpp"
#include "mpk/cluster/prefill/locator.hpp"
#include "mpk/cluster/prefill/memory.hpp"
#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/fence.hpp"

namespace mpk::cluster::prefill {

#if PK_SM90

template <class D>
class Feeder {
public:
    PK_DEVICE Feeder(const Machine& m, const Setup& setup, const Buffers& buffers, unsigned char* memory)
        : m_(m),
          setup_(setup),
          buffers_(buffers),
          patience_(m, setup, patience_state_),
          memory_(memory),
          control_(*reinterpret_cast<Control*>(memory + Memory::control)),
          locator_(buffers.streams, setup.ffn, setup.clusters) {}

    PK_DEVICE Pass& pass() const { return control_.loader_pass; }

    // The consumers meet once more, before what the next product or attention reads is there.
    PK_DEVICE void count_meeting() { ++meetings_; }

    // All of these: false when it is time to leave.
    PK_DEVICE bool product(const TileSize& size, Stream which, std::uint32_t layer,
                           const unsigned char* activations, std::uint32_t op) {
        const Product p = product_of<D>(which);
        const std::uint32_t items = size.items(p, pass().rows), lane = threadIdx.x % 32;
        const std::uint32_t t = lane % size.tiles, c = lane / size.tiles;
        bool ready = false;
        ++meetings_;
        _Pragma("unroll 1") for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
            const Item item(size, p, pass().rows, i);
            const std::uint32_t left = p.tiles - item.first_tile,
                                tiles = left < size.tiles ? left : size.tiles;
            const bool has_weights = c < size.chunks && t < tiles;
            Place place = {};  // of the lane's next chunk, or nothing left
            const auto load_weights = [&](std::uint32_t k) {
                if (has_weights && place.left == 0) {
                    // Past the last chunk its weights once more; the activations there are zero.
                    const std::uint32_t column_chunk = k + c < p.chunks ? k + c : p.chunks - 1;
                    place = locator_.find(which, layer, item.first_tile + t, column_chunk);
                }
                if (!next_stage(tiles * size.chunks * tile_bytes + size.chunks * size.tokens * 64, op))
                    return false;
                if (!has_weights) return true;
                // Tiles that lie together are one copy.
                if (t == 0 || place.first) {
                    const std::uint32_t run = tiles - t < place.together ? tiles - t : place.together;
                    const std::uint32_t s = (issued_ - 1) % stages;
                    pk::ptx::bulk_load(stage(s) + (c * size.tiles + t) * tile_bytes, setup_.tape + place.at,
                                       run * tile_bytes, &control_.full[s]);
                }
                place.at += size.chunks * place.stride;
                place.left -= place.left < size.chunks ? place.left : size.chunks;
                return true;
            };
            // Weights are a stage ahead of activations, and before these are there as far as stages are free.
            bool going_on = true;
            std::uint32_t k = item.chunks.begin, next = k;  // of weights, of activations
            while (true) {
                const std::uint32_t ahead = (ready ? 1 : stages) * size.chunks;
                if (going_on && k < item.chunks.end && k - next < ahead) {
                    going_on = load_weights(k);
                    if (going_on) k += size.chunks;
                    continue;
                }
                // Those that belong to weights under way also when it is time to leave: somebody has to wait
                // for them.
                if (next == k) break;
                if (!ready) going_on = wait_for_all(op) && going_on;
                ready = true;
                if (lane < size.chunks) {
                    const std::uint32_t s = (issued_ - (k - next) / size.chunks) % stages;
                    pk::ptx::bulk_load(stage(s) + size.weight_bytes() + lane * (size.tokens * 64),
                                       activations + activation_offset(next + lane, item.first_row, 0),
                                       size.tokens * 64, &control_.full[s]);
                }
                next += size.chunks;
            }
            if (!going_on) return false;
        }
        return true;
    }

    // Keys and values of every item of attention, key_block tokens at a time.
    PK_DEVICE bool keys(std::uint32_t layer, std::uint32_t op) {
        const std::uint32_t lane = threadIdx.x % 32, items = key_items<D>(pass());
        ++meetings_;
        if (blockIdx.x < items && !wait_for_all(op)) return false;
        _Pragma("unroll 1") for (std::uint32_t i = blockIdx.x; i < items; i += gridDim.x) {
            const KeyItem<D> item(pass(), i);
            const std::uint32_t* table = m_.kv.page_table + item.segment.sequence * m_.kv.pages_per_sequence;
            for (std::uint32_t first = 0; first < item.end(); first += key_block<D>) {
                const std::uint32_t there = item.limit() - first;
                const std::uint32_t units = ((there < key_block<D> ? there : key_block<D>)+unit - 1) / unit;
                if (!next_stage(units * unit * D::head * 4, op)) return false;
                const std::uint32_t u = lane % (key_block<D> / unit), value = lane / (key_block<D> / unit);
                if (u < units && value < 2) {
                    const std::uint32_t token = first + u * unit;
                    const auto* from = static_cast<const unsigned char*>(m_.kv.data) +
                                       cache_offset<D>(m_, layer, table[token / D::kv_page], item.group,
                                                       token % D::kv_page) +
                                       value * values_offset<D>;
                    const std::uint32_t s = (issued_ - 1) % stages;
                    pk::ptx::bulk_load(stage(s) + (value * key_block<D> + u * unit) * (D::head * 2), from,
                                       unit * D::head * 2, &control_.full[s]);
                }
            }
        }
        return true;
    }

    // Shared memory must outlive the copies under way. No bound: each has been asked for, and ends by itself.
    PK_DEVICE void leave() {
        patience_.report();
        const std::uint32_t pending = issued_ < stages ? issued_ : stages;
        for (std::uint32_t n = issued_ - pending; n < issued_; ++n) {
            while (!pk::ptx::mbarrier_try_wait(&control_.full[n % stages], n / stages & 1)) {
            }
        }
    }

private:
    PK_DEVICE unsigned char* stage(std::uint32_t s) const { return memory_ + Memory::ring + s * stage_bytes; }

    // Waits until the next stage is free and has `bytes` expected in it. All lanes.
    PK_DEVICE bool next_stage(std::uint32_t bytes, std::uint32_t op) {
        const std::uint32_t s = issued_ % stages;
        const std::uint32_t parity = (issued_ / stages & 1) ^ 1;
        const bool free =
            patience_.until([&] { return pk::ptx::mbarrier_try_wait(&control_.empty[s], parity); }, op, 0);
        if (!__all_sync(~0u, free)) return false;
        if (threadIdx.x % 32 == 0) pk::ptx::mbarrier_arrive_expect_tx(&control_.full[s], bytes);
        __syncwarp();
        ++issued_;
        return true;
    }

    // Until all blocks came to the meeting before this product.
    PK_DEVICE bool wait_for_all(std::uint32_t op) {
        const std::uint32_t all = meetings_ * gridDim.x;
        const bool met = patience_.until([&] { return pk::load_acquire(buffers_.arrived) >= all; }, op, 0);
        // The copies that follow read what was written in the generic proxy.
        pk::ptx::fence_proxy_async();
        return __all_sync(~0u, met);
    }

    const Machine& m_;
    const Setup& setup_;
    const Buffers& buffers_;
    Patience::State patience_state_ = Patience::State::waits;
    Patience patience_;
    unsigned char* memory_;
    Control& control_;
    Locator<D> locator_;
    std::uint32_t issued_ = 0;  // stages
    std::uint32_t meetings_ = 0;
};

#endif

}  // namespace mpk::cluster::prefill
