"""SmolLM2-135M on the host against transformers on the same bf16 weights."""

import json
import math
import subprocess
import sys

import numpy as np


def bf16_step(value: float) -> float:
    """The distance between neighbouring bf16 numbers (8 significant bits) at `value`."""
    return 2.0 ** (math.floor(math.log2(abs(value))) - 7)


def test_greedy_tokens_are_those_of_transformers(model, reference):
    """Equal for 64 tokens, or first unequal where rounding the two largest logits to bf16 may swap them.

    Each of the two moves by half a step at most, so that is where the reference's lead is one step at most.
    """
    prompts = reference["prompts"]
    results = model.generate([p["prompt"] for p in prompts], max_new_tokens=64)
    wrong, equal = [], 0
    for entry, result in zip(prompts, results, strict=True):
        expected, got = entry["fp32"]["tokens"], result.tokens.tolist()
        assert len(got) == 64
        first = next((i for i in range(64) if expected[i] != got[i]), None)
        if first is None:
            equal += 1
            continue
        lead, step = entry["fp32"]["margins"][first], bf16_step(entry["fp32"]["top_logits"][first])
        print(f"{entry['text']!r}: differs at token {first}, where the lead is {lead} and a bf16 step {step}")
        if lead > step:
            wrong.append((entry["text"], first, lead, step))
    print(f"{equal} of {len(prompts)} prompts equal for 64 tokens")
    assert not wrong


def test_log_probabilities_of_the_reference_tokens(model, reference):
    """With transformers' tokens forced, so that every step is compared. bf16 transformers sets the scale."""
    entries = reference["prompts"]
    worst = 0.0
    for batch in (entries[:5], entries[5:]):
        texts = [e["prompt"] + e["fp32"]["tokens"] for e in batch]
        results = model.generate(texts, max_new_tokens=1, score_prompt=True)
        for entry, result in zip(batch, results, strict=True):
            begin = len(entry["prompt"])
            got = result.logprobs[begin : begin + 64]
            worst = max(worst, float(np.abs(got - entry["fp32"]["logprobs"]).max()))
    print(f"largest difference of a log-probability from fp32: {worst:.4f}")
    assert worst < 0.15


def test_perplexity_is_that_of_transformers(model, reference):
    expected = reference["perplexity"]
    (result,) = model.generate([expected["tokens"]], max_new_tokens=1, score_prompt=True)
    logprobs = result.logprobs[1 : len(expected["tokens"])].astype(np.float64)
    got = math.exp(-logprobs.mean())
    print(f"perplexity {got:.4f}; transformers fp32 {expected['fp32']}, bf16 {expected['bf16']}")
    assert abs(got / expected["fp32"] - 1) < 0.005


def test_a_sequence_does_not_depend_on_its_batch(model, reference):
    prompts = [p["prompt"] for p in reference["prompts"]]
    together = model.generate(prompts, max_new_tokens=24)
    for s in (0, 4, 5):
        (alone,) = model.generate([prompts[s]], max_new_tokens=24)
        assert alone.tokens.tolist() == together[s].tokens.tolist()
        np.testing.assert_array_equal(alone.logprobs, together[s].logprobs)


def test_the_command_line_says_paris(smollm2, reference, preset):
    command = [sys.executable, "-m", "kgen.cli", "run", str(smollm2), "--preset", preset]
    question = ["--prompt", "What is the capital of France?"]
    done = subprocess.run([*command, *question], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The capital of France is Paris.\n"
    assert f"tokens/s ({preset})" in done.stderr

    again = subprocess.run([*command, *question, "--json"], capture_output=True, text=True, timeout=300)
    answer = json.loads(again.stdout)
    assert answer["text"] == "The capital of France is Paris."
    assert answer["finish"] == "stop_token"
    assert answer["tokens"] == reference["prompts"][0]["fp32"]["tokens"][: len(answer["tokens"])]
    assert answer["prompt_tokens"] == len(reference["prompts"][0]["prompt"])
    assert answer["tokens_per_second"] > 0
