"""The byte-level BPE tokenizer that a GGUF file carries in its metadata."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import TokenType
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as HfTokenizer
from tokenizers.models import BPE
from tokenizers.processors import TemplateProcessing

from kgen.weights.checkpoint import WeightsError
from kgen.weights.gguf_reader import field, open_gguf

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


@dataclass(frozen=True)
class GgufTokenizer:
    """The tokenizer and the special ids and chat template beside it."""

    backend: HfTokenizer
    bos_id: int | None
    eos_id: int | None
    eot_id: int | None
    chat_template: str | None


def _byte_level(*before: Any, use_regex: bool) -> Any:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    return pre_tokenizers.Sequence([*before, level]) if before else level


def _split(pattern: str) -> Any:
    return _byte_level(pre_tokenizers.Split(Regex(pattern), behavior="isolated"), use_regex=False)


# tokenizer.ggml.pre names how text is cut before the merges apply.
_PRE_TOKENIZERS = {
    "gpt-2": lambda: _byte_level(use_regex=True),
    "smollm": lambda: _byte_level(pre_tokenizers.Digits(individual_digits=True), use_regex=True),
    "llama-bpe": lambda: _split(_LLAMA3),
    "qwen2": lambda: _split(_QWEN2),
}


def gguf_tokenizer(path: Path) -> GgufTokenizer:
    """Build the tokenizer. Raises WeightsError for models and pre-tokenizers that are not supported."""
    reader = open_gguf(path)

    def ggml(key: str, default: Any = None) -> Any:
        return field(reader, f"tokenizer.ggml.{key}", default)

    model, pre = ggml("model"), ggml("pre", "gpt-2")
    if model != "gpt2":
        raise WeightsError(
            f"{path}: tokenizer {model!r} is not 'gpt2' (byte-level BPE): name a tokenizer.json"
        )
    if pre not in _PRE_TOKENIZERS:
        raise WeightsError(
            f"{path}: pre-tokenizer {pre!r} is not one of {', '.join(_PRE_TOKENIZERS)}: name a tokenizer.json"
        )
    tokens: list[str] = ggml("tokens", [])
    merges = [tuple(m.split(" ", 1)) for m in ggml("merges", [])]
    # Llama 3's vocabulary holds whole words that its merges do not reach.
    bpe = BPE({t: i for i, t in enumerate(tokens)}, merges, ignore_merges=pre == "llama-bpe")
    backend = HfTokenizer(bpe)
    if pre == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _PRE_TOKENIZERS[pre]()
    backend.decoder = decoders.ByteLevel()
    kinds = ggml("token_type", [TokenType.NORMAL] * len(tokens))
    for kind, special in ((TokenType.CONTROL, True), (TokenType.USER_DEFINED, False)):
        added = [t for t, k in zip(tokens, kinds, strict=True) if k == kind]
        backend.add_tokens([AddedToken(t, special=special, normalized=False) for t in added])
    bos = ggml("bos_token_id")
    if ggml("add_bos_token", False) and bos is not None:
        backend.post_processor = TemplateProcessing(
            single=f"{tokens[bos]} $A", special_tokens=[(tokens[bos], bos)]
        )
    template = field(reader, "tokenizer.chat_template")
    return GgufTokenizer(backend, bos, ggml("eos_token_id"), ggml("eot_token_id"), template)
