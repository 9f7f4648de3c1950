"""Write tokenizer_reference.json: ids of many strings, from a second implementation of SmolLM2's tokenizer.

Run where transformers, gguf and regex are installed: python make_tokenizer_reference.py MODEL.gguf
The ids come from the byte-pair encoding below, with the splitting rules that llama.cpp has for `smollm`. They
are checked against transformers' reading of the same file, which forgets that digits are split off first, so
it may differ where spaces stand before a digit, and nowhere else.
"""

import json
import random
import sys
from itertools import pairwise
from pathlib import Path

import regex
import transformers
from gguf import GGUFReader

STRINGS = [
    "",
    " ",
    "\n",
    "a",
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "  leading and trailing  ",
    "tabs\tand\nnewlines\r\n\r\nmixed \n ",
    "don't can't we'll I've she'd they're it's",
    "DON'T SHOUT'S",
    "1234567890",
    "3.14159 -2.5e-10 0x7fff 1,000,000",
    "a1b2c3 x86_64 v1.2.3 2024-01-31T12:00:00Z",
    "  12   345    6",
    "naïve café Ångström ÀÉÎÕÜ ß",
    "na\u0308ive cafe\u0301",
    "Привет, мир! Как дела?",
    "你好，世界。今天天气很好。",
    "こんにちは世界、カタカナ ｶﾅ",
    "안녕하세요 세계",
    "שלום עולם مرحبا بالعالم",
    "नमस्ते दुनिया สวัสดีชาวโลก",
    "😀🤖👩‍👩‍👧‍👦🇫🇷👍🏽",
    "½ ² Ⅷ ٣٤ ๔ 𝟘𝟙",
    "\u00a0\u2003\u200b\u3000\ufeff|",
    "\x00\x01\x7f",
    "def f(x: int) -> int:\n    return x ** 2  # square\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i]; }",
    "#include <vector>\n\tstd::vector<std::pair<int, float>> v{{1, 2.f}};\n",
    '{"key": [1, 2.5, null, true], "s": "\\u00e9\\n"}',
    '<html><body class="x">&amp;</body></html>',
    "SELECT * FROM t WHERE a >= 10 AND b != 'x';",
    "https://example.com/path?q=1&r=%20#frag",
    "user@example.com +1 (555) 010-9999",
    "$x^2 + y_1 \\frac{a}{b} \\le \\sqrt{2}$",
    "!!!???...---===***///\\\\\\",
    "a" * 100,
    " " * 33 + "x",
    "\n" * 7 + "end",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "text<|endoftext|>more <|im_end|>\n\n<repo_name>x<file_sep>",
    "<|im_start|",
    "<|im_start|><|im_start|>  <|im_end|>1",
]
PIECES = [
    *(
        "the",
        "The",
        " of",
        "ing",
        "'s",
        "'",
        '"',
        " ",
        "  ",
        "   ",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        "é",
        "ß",
        "日本",
        "🙂",
    ),
    *(
        "0",
        "7",
        "42",
        " 1",
        "  2",
        "_",
        "::",
        "->",
        "();",
        "\u00a0",
        "Я",
        "x=",
        "<|im_end|>",
        ".",
        ", ",
        "ABC",
        "%",
    ),
]


def all_strings() -> list[str]:
    draw = random.Random(2)
    return STRINGS + ["".join(draw.choices(PIECES, k=draw.randint(2, 14))) for _ in range(160)]


def byte_alphabet() -> dict[int, str]:
    """GPT-2's printable character for each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (b for b in range(256) if b not in plain)
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(others)}}


class Reference:
    """Byte-pair encoding, straight from its definition."""

    def __init__(self, path: str) -> None:
        reader = GGUFReader(path)
        field = {
            key: reader.get_field(f"tokenizer.ggml.{key}").contents()
            for key in ("tokens", "token_type", "merges")
        }
        self.ids = {token: i for i, token in enumerate(field["tokens"])}
        self.ranks = {tuple(merge.split(" ")): i for i, merge in enumerate(field["merges"])}
        special = [t for t, kind in zip(field["tokens"], field["token_type"], strict=True) if kind == 3]
        self.special = regex.compile(
            "(" + "|".join(map(regex.escape, sorted(special, key=len, reverse=True))) + ")"
        )
        self.alphabet = byte_alphabet()

    def encode(self, text: str) -> list[int]:
        ids = []
        for i, part in enumerate(self.special.split(text)):
            if i % 2:
                ids.append(self.ids[part])
                continue
            for run in regex.findall(r"\p{N}|[^\p{N}]+", part):
                for word in regex.findall(
                    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", run
                ):
                    ids += self.merge([self.alphabet[b] for b in word.encode()])
        return ids

    def merge(self, symbols: list[str]) -> list[int]:
        while True:
            pairs = [(self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(pairwise(symbols))]
            rank, i = min(pairs, default=(len(self.ranks), 0))
            if rank == len(self.ranks):
                return [self.ids[s] for s in symbols]
            symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


CONVERSATIONS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    [
        {"role": "user", "content": "2+2?"},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": "And\ntwice that? "},
    ],
]


def main() -> None:
    path = Path(sys.argv[1])
    reference = Reference(str(path))
    hf = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    strings = all_strings()
    differ = 0
    for text in strings:
        if reference.encode(text) != hf(text)["input_ids"]:
            assert regex.search(r"\s\p{N}", text), f"transformers differs on {text!r}"
            differ += 1
    chats = [hf.apply_chat_template(c, add_generation_prompt=True, tokenize=False) for c in CONVERSATIONS]
    data = {
        "model": path.name,
        "transformers": transformers.__version__,
        "equal_in_transformers": len(strings) - differ,
        "strings": [[text, reference.encode(text)] for text in strings],
        "chats": [
            {"messages": messages, "text": text, "ids": reference.encode(text)}
            for messages, text in zip(CONVERSATIONS, chats, strict=True)
        ],
    }
    rows = ",\n".join(f"  {json.dumps(row)}" for row in data.pop("strings"))
    head = json.dumps(data, indent=1)[:-2]
    Path(__file__).with_name("tokenizer_reference.json").write_text(
        f'{head},\n "strings": [\n{rows}\n ]\n}}\n'
    )
    print(f"{len(strings)} strings, {differ} differ in transformers {transformers.__version__}")


main()
