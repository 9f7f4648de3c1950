// Global memory of the prefill kernel, which passes and calls share.
#pragma once

#include "mpk/cluster/prefill/pass.hpp"

namespace mpk::cluster::prefill {

struct Buffers {
    const std::uint64_t* streams;            // Locator::table
    std::uint32_t* arrived;                  // blocks that came to the barriers of a call; 0 at its start
    float4* x;                               // residual stream, by fragment_offset
    float4* sums;                            // of products: [part], by fragment_offset
    float* squares;                          // of x: [hidden / fold_columns][pass_rows] sums
    float2* angles;                          // [pass_rows][head / 2] cosine and sine
    unsigned char* queries;                  // bf16 [pass_rows][group][head of the group][channel]
    unsigned char *hidden, *attended, *ffn;  // by activation_offset
};

// Bytes of a part of the buffer, and what lies before it.
template <class D>
struct BufferSizes {
    using S = Shares<D>;
    static constexpr std::uint64_t fragments(Stream which) {
        constexpr std::uint64_t size = sizeof(float4) * 32 * (pass_rows / octet);
        return which == Stream::gate_up ? 0 : product_of<D>(which).parts * product_of<D>(which).tiles * size;
    }
    static constexpr std::uint64_t most(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }

    static constexpr std::uint64_t x = std::uint64_t{D::hidden} * pass_rows * 4;
    static constexpr std::uint64_t sums =
        most(fragments(Stream::qkv), most(fragments(Stream::output), fragments(Stream::down)));
    static constexpr std::uint64_t squares = std::uint64_t{D::hidden / fold_columns} * pass_rows * 4;
    static constexpr std::uint64_t angles = std::uint64_t{pass_rows} * D::head * 4;
    static constexpr std::uint64_t heads = std::uint64_t{pass_rows} * D::heads * D::head * 2;
    static constexpr std::uint64_t hidden = std::uint64_t{D::hidden} * pass_rows * 2;
    // Whole units of part_chunks; what is over stays zero.
    static constexpr std::uint64_t ffn =
        std::uint64_t{(S::ffn_chunks + part_chunks - 1) / part_chunks} * part_chunks * chunk * pass_rows * 2;
    static constexpr std::uint64_t all = x + sums + squares + angles + 2 * heads + hidden + ffn;

    // All parts are multiples of 128 bytes.
    static Buffers carve(void* memory) {
        auto* at = static_cast<unsigned char*>(memory);
        const auto take = [&](std::uint64_t bytes) {
            unsigned char* part = at;
            at += bytes;
            return part;
        };
        Buffers buffers = {};
        buffers.x = reinterpret_cast<float4*>(take(x));
        buffers.sums = reinterpret_cast<float4*>(take(sums));
        buffers.squares = reinterpret_cast<float*>(take(squares));
        buffers.angles = reinterpret_cast<float2*>(take(angles));
        buffers.queries = take(heads);
        buffers.attended = take(heads);
        buffers.hidden = take(hidden);
        buffers.ffn = take(ffn);
        return buffers;
    }
};

}  // namespace mpk::cluster::prefill
