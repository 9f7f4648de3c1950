// Sizes of decoders as the renderer writes them, the shipped ones and odd ones, for mpk/cluster on the host.
#pragma once

#include <cstdint>
#include <string>

#include "mpk/cluster/shares.hpp"

namespace testing {

template <std::uint32_t Layers, std::uint32_t Hidden, std::uint32_t Heads, std::uint32_t Head,
          std::uint32_t Ffn, std::uint32_t Vocab, std::uint32_t Page = 64>
struct Decoder {
    static constexpr std::uint32_t layers = Layers, hidden = Hidden, heads = Heads, kv_heads = 8, head = Head;
    static constexpr std::uint32_t ffn = Ffn, vocab = Vocab, kv_page = Page, batch = 16, rows = 16;

    static std::string name() {
        return "decoder " + std::to_string(hidden) + "/" + std::to_string(ffn) + "/" + std::to_string(vocab);
    }
    static constexpr std::uint64_t weight_bytes =
        2 * (layers * std::uint64_t{hidden} * ((heads + 2 * kv_heads) * head + heads * head + 3 * ffn) +
             std::uint64_t{vocab} * hidden);
};

using TinyDecoder = Decoder<2, 512, 16, 64, 1024, 512, 16>;
using Llama1B = Decoder<16, 2048, 32, 64, 8192, 128256>;
using Qwen06B = Decoder<28, 1024, 16, 128, 3072, 151936>;
using Qwen17B = Decoder<28, 2048, 16, 128, 6144, 151936>;
using Qwen8B = Decoder<36, 4096, 32, 128, 12288, 151936>;
// As many FFN chunks and logits as divide by nothing.
using OddFfn = Decoder<5, 256, 8, 64, 32 * 37, 16 * 1001>;
// The least FFN, and logits of one tile.
using LeastFfn = Decoder<3, 768, 64, 128, 512, 16>;

// visit.template operator()<D>() for each of them.
template <class Visit>
void each_decoder(Visit visit) {
    visit.template operator()<TinyDecoder>();
    visit.template operator()<Llama1B>();
    visit.template operator()<Qwen06B>();
    visit.template operator()<Qwen17B>();
    visit.template operator()<Qwen8B>();
    visit.template operator()<OddFfn>();
    visit.template operator()<LeastFfn>();
}

}  // namespace testing
