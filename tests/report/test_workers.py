from __future__ import annotations

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from kgen.frontend.build import build_graph
from kgen.ir.graph import Worker
from kgen.passes.pipeline import Compilation, compile_graph
from kgen.paths import shipped_spec
from kgen.plan.decoder import used_clusters
from kgen.report.phases import GeneralPhase, general_phases
from kgen.report.workers import Edge, Workers, choose_worker
from kgen.spec.load import parse_spec
from tests.graphs import TINY, build


def compiled(spec: str, workers: int | None = None, batch: int | None = None) -> Compilation:
    path = shipped_spec(spec)
    assert path is not None
    text = path.read_text()
    if batch is not None:
        text = re.sub(r"batch: 1\.\.\d+", f"batch: 1..{batch}", text)
    return compile_graph(build_graph(parse_spec(text), workers=workers))


@pytest.fixture(scope="module")
def llama() -> Workers:
    return choose_worker(compiled("llama-3.2-1b"))


def text_of(workers: Workers) -> str:
    console = Console(width=132, file=io.StringIO())
    with console.capture() as capture:
        console.print(workers.to_table())
    return capture.get()


def test_phases_and_edges_of_the_cluster_worker(llama: Workers) -> None:
    assert llama.chosen is Worker.CLUSTER
    assert llama.cluster is not None
    assert [(p.name, p.waits_for, p.edge) for p in llama.cluster.layer] == [
        ("QKV", "down, of the layer before", Edge.ALL),
        ("attention", "QKV", Edge.GROUP),
        ("output", "attention", Edge.GROUP),
        ("gate, up and SiLU", "output", Edge.ALL),
        ("down", "gate, up and SiLU", Edge.GROUP),
    ]
    assert (llama.cluster.barriers_per_layer, llama.cluster.phases, llama.cluster.barriers) == (
        2,
        16 * 5 + 3,
        16 * 2 - 1 + 3,
    )


def test_the_end_of_a_step(llama: Workers) -> None:
    """One SM waits for all, and all for that SM."""
    assert llama.cluster is not None
    assert [(p.name, p.waits_for, p.edge) for p in llama.cluster.end] == [
        ("logits", "down, of the last layer", Edge.ALL),
        ("sampling, advance", "logits", Edge.TO_ONE),
        ("next step", "sampling, advance", Edge.FROM_ONE),
    ]


def test_bytes_of_the_cluster_worker(llama: Workers) -> None:
    """16 clusters of 8 SMs, 8 of which own a KV head; all stream the same bytes of the FFN and the logits."""
    c = llama.cluster
    assert c is not None
    streams = {p.name: (p.bytes, p.bytes_without_kv_head) for p in (*c.layer, *c.end)}
    assert streams == {
        "QKV": ((32 + 16) * 64 * 2048 * 2 // 64, 0),
        "attention": (16 * 8192 * 2 * 64 * 2 // 8, 0),  # keys and values of 16 contexts, of one KV head
        "output": (2048 * 2048 * 2 // 64, 0),
        "gate, up and SiLU": (2 * 8192 * 2048 * 2 // 128,) * 2,
        "down": (8192 * 2048 * 2 // 128,) * 2,
        "logits": (128256 * 2048 * 2 // 128,) * 2,
        "sampling, advance": (0, 0),
        "next step": (0, 0),
    }
    whole = (16 * ((32 + 16) * 64 + 2048 + 3 * 8192) + 128256) * 2048 * 2
    assert 64 * c.step_bytes + 64 * c.step_bytes_without_kv_head == whole
    assert c.step_bytes - c.step_bytes_without_kv_head == 16 * ((32 + 16) * 64 + 2048) * 2048 * 2 // 64
    assert c.max_over_mean == pytest.approx(c.step_bytes * 128 / whole)


@pytest.mark.parametrize(
    ("sms", "clusters"), [(50, 0), (63, 0), (64, 8), (95, 11), (96, 12), (132, 16), (400, 16)]
)
def test_clusters(sms: int, clusters: int) -> None:
    assert used_clusters(sms, ffn=8192) == clusters


@pytest.mark.parametrize(("ffn", "clusters"), [(480, 0), (512, 8), (608, 9), (1024, 16)])
def test_each_cluster_has_a_part_of_the_ffn(ffn: int, clusters: int) -> None:
    assert used_clusters(132, ffn) == clusters


def test_with_a_cluster_for_each_kv_head_there_are_no_others() -> None:
    workers = choose_worker(compiled("tiny-decoder", workers=64))
    assert workers.cluster is not None
    streams = {p.name: p.bytes for p in workers.cluster.layer}
    assert streams["gate, up and SiLU"] == 2 * 1024 * 512 * 2 // 64
    assert streams["down"] == 1024 * 512 * 2 // 64
    assert workers.cluster.max_over_mean == 1
    assert workers.to_json()["cluster"]["step_bytes_without_kv_head"] is None
    text = text_of(workers)
    assert "weights that an SM streams in a step: 205 kB\n" in text
    assert "8 groups (clusters) of 8 SMs, each with a KV head;" in text
    assert "without KV head" not in text


def test_a_gpu_without_a_cluster_for_each_kv_head() -> None:
    workers = choose_worker(compiled("qwen3-0.6b", workers=50))
    assert workers.chosen is Worker.GENERAL
    assert workers.reasons == ("50 SMs are 6 clusters of 8, fewer than the 8 KV heads",)


def test_phases_of_the_general_worker() -> None:
    """Attention of a KV head waits for that head's part of QKV only; every other event joins all tasks."""
    found = general_phases(compile_graph(build(TINY)))
    names = ["attn_norm", "qkv", "attention", "o", "ffn_norm", "swiglu", "down"]
    assert found.layer == tuple(
        GeneralPhase(
            f"layers.*.{name}",
            (f"layers.*.{names[i - 1]}",),
            2 if name == "attention" else 1,
            name != "attention",
        )
        for i, name in enumerate(names)
    )
    assert (found.phases_per_layer, found.barriers_per_layer) == (7, 6)
    # Embedding, two layers, norm, logits, sampling, advance. The first norm waits for its own row only.
    assert found.phases == 1 + 2 * 7 + 4
    assert found.barriers == 1 + 5 + 6 + 4


def test_operators_side_by_side_are_one_phase() -> None:
    """Gate and up do not wait for each other; the products and the sums after them do."""
    found = general_phases(compile_graph(build(replace(TINY, fused=False))))
    assert len(found.layer) == 11
    assert found.phases_per_layer == 10


def test_a_model_without_layers_has_phases_too() -> None:
    found = general_phases(compile_graph(build(replace(TINY, layers=0))))
    assert found.phases == 5


def test_table_of_a_decoder(llama: Workers) -> None:
    text = text_of(llama)
    for line in (
        "on a Hopper GPU: the cluster worker, 16 groups (clusters) of 8 SMs, 8 of them with a KV head each;",
        "not the general worker, which has 7 dependent phases a layer (6 barriers)",
        "5 dependent phases a layer, 2 of them behind a barrier of all SMs; ",
        "83 phases and 34 barriers a step;",
        "on every other target: the general worker",
        "7 dependent phases a layer, 6 barriers; 117 phases and 100 barriers a step",
        "part of the tasks, 8 events",
        "all SMs (barrier), through global",
        "inside a group, shared memory",
        "SM 0 waits for all SMs (barrier)",
        "all SMs wait for SM 0 (barrier)",
        "weights that an SM streams in a step: 21.9 MB with a KV head, 16.7 MB without;",
        "the most is 1.14 times the mean",
    ):
        assert line in text
    several = "of several rows each of these takes a second wait through global memory"
    assert several in text
    assert llama.cluster is not None
    assert several not in text_of(replace(llama, cluster=replace(llama.cluster, step_rows=1)))
    qkv = next(line for line in text.splitlines() if "QKV" in line)
    assert [cell.strip() for cell in qkv.split("│")[-3:-1]] == ["197 kB", "0 B"]


def test_table_of_another_model() -> None:
    workers = choose_worker(compiled("qwen2.5-0.5b"))
    assert text_of(workers).startswith(
        "on every target: the general worker; on a Hopper GPU not the cluster worker, because\n"
        "- every layer: the QKV projection has a bias\n"
    )


@pytest.mark.parametrize("spec", ["llama-3.1-8b", "qwen3-8b"])
def test_a_decoder_with_a_batch_that_is_too_large(spec: str) -> None:
    workers = choose_worker(compiled(spec, batch=16))
    assert workers.chosen is Worker.GENERAL
    assert text_of(workers).startswith(
        "on every target: the general worker; on a Hopper GPU not the cluster worker, because\n"
        "- shared memory has room for 8 rows of this model, fewer than a batch of 16; "
        "`batch: 1..8` would fit\n"
    )
    assert choose_worker(compiled(spec)).chosen is Worker.CLUSTER


def test_a_spec_that_asks_for_the_general_worker() -> None:
    graph = compiled("llama-3.2-1b").graph
    asked = compile_graph(replace(graph, runtime=replace(graph.runtime, worker=Worker.GENERAL)))
    assert choose_worker(asked).reasons == ("the spec asks for the general worker",)


def test_json(llama: Workers) -> None:
    report = json.loads(json.dumps(llama.to_json()))
    assert (report["on_hopper"], report["why_not_cluster"]) == ("cluster", [])
    cluster = report["cluster"]
    assert {name: value for name, value in cluster.items() if name not in ("layer", "end")} == {
        "clusters": 16,
        "sms_of_a_cluster": 8,
        "pipelining": True,
        "attention": "jit",
        "prompt_tokens_of_a_step": 16,
        "prompt_tokens_of_a_pass": 512,
        "phases_per_layer": 5,
        "barriers_per_layer": 2,
        "phases": 83,
        "barriers": 34,
        "step_bytes": 21929984,
        "step_bytes_without_kv_head": 16687104,
        "step_bytes_max_over_mean": 1.1358,
    }
    assert cluster["layer"][1] == {
        "name": "attention",
        "waits_for": "QKV",
        "edge": "inside a group, shared memory",
        "bytes": 4194304,
        "bytes_without_kv_head": 0,
    }
    assert [phase["name"] for phase in cluster["end"]] == ["logits", "sampling, advance", "next step"]
    assert report["general"]["layer"][2] == {
        "name": "layers.*.attention",
        "waits_for": ["layers.*.wqkv"],
        "events": 8,
        "barrier": False,
    }
    assert report["general"]["barriers"] == 100


def test_json_of_another_model() -> None:
    report = choose_worker(compiled("qwen2.5-0.5b")).to_json()
    assert report["on_hopper"] == "general"
    assert report["why_not_cluster"] == ["every layer: the QKV projection has a bias"]
    assert report["cluster"] is None
