"""Write tests/e2e/reference.json: what transformers makes of SmolLM2 on the weights that kgen packs.

Run where torch, transformers and kgen's dependencies are installed: python reference.py MODEL.gguf
The bf16 weights come from kgen's own reading of the file, so both sides compute with the same numbers. The
model is run twice: in fp32 on those weights (the reference), and all in bf16.
"""

import argparse
import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import ml_dtypes  # noqa: E402

from kgen.weights.gguf_reader import field, open_gguf  # noqa: E402
from kgen.weights.open import open_checkpoint  # noqa: E402
from kgen.weights.tokenizer import load_tokenizer  # noqa: E402

NEW_TOKENS = 64

# Conversations are rendered with the model's chat template, strings are continued as they are.
LONG = (
    "Summarize the following report in one sentence.\n\n"
    "The town library was built in 1911 with money left by a shipping merchant who never learned "
    "to read. For sixty years it lent books from a single oak counter, and the librarian knew "
    "every borrower by name. In 1974 a flood rose to the second shelf and ruined most of the "
    "local history collection; volunteers dried what could be saved on washing lines strung "
    "across the school gymnasium. The insurance paid for a concrete extension that leaked from "
    "its first winter. A petition in 1998 asked the council to pull it down, and the council "
    "agreed, but there was no money until 2013, when a regional fund offered to pay half. The new "
    "wing opened three years later. It has a reading room with tall windows on the north side, a "
    "workshop with two printers and a loom, and a small theatre where children perform plays that "
    "they write themselves. Visits have doubled since then, although the number of books lent has "
    "fallen by a third, and the staff say that people come for the warmth, the company and the "
    "quiet, in that order."
)
PROMPTS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "user", "content": "Hi"}],
    [{"role": "user", "content": "List three primary colors and one thing in nature that has each of them."}],
    [
        {"role": "system", "content": "You answer in one short sentence."},
        {"role": "user", "content": "Why is the sky blue?"},
        {"role": "assistant", "content": "Air scatters blue light more than red."},
        {"role": "user", "content": "And why are sunsets red?"},
    ],
    [{"role": "user", "content": LONG}],
    "The",
    "Once upon a time, in a village by the sea,",
    'def fibonacci(n):\n    """Return the n-th Fibonacci number."""\n',
    "Water boils at 100 degrees Celsius at sea level. At the top of a high mountain the air pressure is "
    "lower, so water boils at",
    "1, 1, 2, 3, 5, 8, 13,",
]


def model_config(path: Path) -> LlamaConfig:
    reader = open_gguf(path)

    def llama(key: str):
        return field(reader, f"llama.{key}")

    return LlamaConfig(
        hidden_size=llama("embedding_length"),
        intermediate_size=llama("feed_forward_length"),
        num_hidden_layers=llama("block_count"),
        num_attention_heads=llama("attention.head_count"),
        num_key_value_heads=llama("attention.head_count_kv"),
        vocab_size=llama("vocab_size"),
        max_position_embeddings=llama("context_length"),
        rms_norm_eps=round(llama("attention.layer_norm_rms_epsilon"), 9),
        rope_parameters={"rope_type": "default", "rope_theta": llama("rope.freq_base")},
        tie_word_embeddings=True,
    )


def load_model(path: Path, dtype: torch.dtype) -> LlamaForCausalLM:
    """SmolLM2 on kgen's bf16 weights, computing in `dtype`."""
    model = LlamaForCausalLM(model_config(path)).to(torch.bfloat16)
    state = {}
    for name, tensor in open_checkpoint(path).tensors.items():
        bits = tensor.read(0, tensor.rows).astype(ml_dtypes.bfloat16).view(np.int16)
        state[name] = torch.from_numpy(bits.copy()).view(torch.bfloat16)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model.to(dtype).eval()


@torch.inference_mode()
def greedy(model: LlamaForCausalLM, prompt: list[int], count: int) -> dict:
    """`count` greedy tokens, through stop tokens; of each its logit, lead over the next, log-probability."""
    past, ids, tokens, margins, tops, logprobs = None, torch.tensor([prompt]), [], [], [], []
    for _ in range(count):
        out = model(input_ids=ids, past_key_values=past, use_cache=True)
        past, logits = out.past_key_values, out.logits[0, -1].float()
        first, second = torch.topk(logits, 2).values.tolist()
        tokens.append(int(logits.argmax()))
        margins.append(round(first - second, 5))
        tops.append(round(first, 4))
        logprobs.append(round(first - logits.logsumexp(0).item(), 5))
        ids = torch.tensor([[tokens[-1]]])
    return {"tokens": tokens, "margins": margins, "top_logits": tops, "logprobs": logprobs}


@torch.inference_mode()
def perplexity(model: LlamaForCausalLM, ids: list[int]) -> float:
    """exp of the mean negative log-probability of ids[1:]."""
    logits = model(input_ids=torch.tensor([ids])).logits[0, :-1].float()
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="mean")
    return math.exp(loss.item())


def make_reference(path: Path, text: str) -> dict:
    tokenizer = load_tokenizer(path)
    prompts = [tokenizer.encode(p) if isinstance(p, str) else tokenizer.encode_chat(p) for p in PROMPTS]
    ids = tokenizer.encode(text)
    exact, rounded = load_model(path, torch.float32), load_model(path, torch.bfloat16)
    return {
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "model": path.name,
        "perplexity": {
            "tokens": ids,
            "fp32": round(perplexity(exact, ids), 6),
            "bf16": round(perplexity(rounded, ids), 6),
        },
        "prompts": [
            {
                "prompt": prompt,
                "text": tokenizer.decode(prompt)[:60],
                "fp32": greedy(exact, prompt, NEW_TOKENS),
                "bf16": greedy(rounded, prompt, NEW_TOKENS),
            }
            for prompt in prompts
        ],
    }


def compact(value: object, indent: int = 0) -> str:
    """JSON with one line for each list of numbers."""
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        rows = [f"{pad}{json.dumps(k)}: {compact(v, indent + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + "\n" + " " * indent + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(pad + compact(v, indent + 1) for v in value) + "\n" + " " * indent + "]"
    return json.dumps(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "tests/e2e/reference.json")
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    data = make_reference(args.gguf, (ROOT / "tests/e2e/text.txt").read_text())
    args.out.write_text(compact(data) + "\n")


if __name__ == "__main__":
    main()
