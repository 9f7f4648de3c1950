"""Which worker runs a model on a Hopper GPU, why, and what each worker's step waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kgen.ir.graph import Worker
from kgen.ir.tensor import DType
from kgen.passes.pipeline import Compilation
from kgen.plan.decoder import GROUP_SMS, GROUPS, Decoder, cluster_decoder, too_few_sms, used_clusters
from kgen.report.phases import GeneralPhases, general_phases
from kgen.report.sizes import size_text

PASS_TOKENS = 512  # that the kernel beside the cluster worker reads of prompts at a time
SEVERAL_ROWS = (
    "of several rows each of these takes a second wait through global memory: an SM adds up a share of the "
    "rows\nand hands it to the SMs that need the same columns;\n"
)
ATTENTION = "attention"  # the phase that streams keys and values, not weights


class Edge(StrEnum):
    """How a phase learns that what it waits for is done."""

    ALL = "all SMs (barrier), through global memory"
    GROUP = "inside a group, shared memory"
    TO_ONE = "SM 0 waits for all SMs (barrier)"
    FROM_ONE = "all SMs wait for SM 0 (barrier)"


@dataclass(frozen=True)
class ClusterPhase:
    """A phase of the cluster worker and the bytes of weights, or keys and values, that one SM streams in it.

    Means over layers, of an SM whose cluster owns a KV head, and of one whose cluster owns none. Tiles are
    divided as numbers: what whole tiles make of it differs by one of them.
    """

    name: str
    waits_for: str
    edge: Edge
    bytes: int
    bytes_without_kv_head: int


@dataclass(frozen=True)
class ClusterPhases:
    """The phases of a layer and those that end a step, on `clusters` clusters."""

    clusters: int
    layers: int
    layer: tuple[ClusterPhase, ...]
    end: tuple[ClusterPhase, ...]
    pipelining: bool
    attention: str
    step_rows: int  # tokens of a prompt that one step can read

    @property
    def barriers_per_layer(self) -> int:
        """Phases of a layer that wait for all SMs."""
        return sum(phase.edge is Edge.ALL for phase in self.layer)

    @property
    def phases(self) -> int:
        """Phases of a step, each of which waits for the one before."""
        return self.layers * len(self.layer) + len(self.end)

    @property
    def barriers(self) -> int:
        """Barriers of a step; before the first layer there is none but the one that ends the step before."""
        in_layers = self.layers * self.barriers_per_layer - 1
        return in_layers + sum(phase.edge is not Edge.GROUP for phase in self.end)

    @property
    def step_bytes(self) -> int:
        """Weights that an SM with a KV head streams in a step."""
        streams = [phase.bytes for phase in self.layer if phase.name != ATTENTION]
        return self.layers * sum(streams) + sum(phase.bytes for phase in self.end)

    @property
    def step_bytes_without_kv_head(self) -> int:
        """Weights that an SM without a KV head streams in a step, if there are such SMs."""
        return self.layers * sum(phase.bytes_without_kv_head for phase in self.layer) + sum(
            phase.bytes_without_kv_head for phase in self.end
        )

    @property
    def max_over_mean(self) -> float:
        """The most weights that an SM streams in a step, over the mean of all SMs."""
        others = self.clusters - GROUPS
        mean = (GROUPS * self.step_bytes + others * self.step_bytes_without_kv_head) / self.clusters
        return self.step_bytes / mean


@dataclass(frozen=True)
class Workers:
    """The choice between the workers; `cluster` is None where that worker cannot run, for these `reasons`."""

    cluster: ClusterPhases | None
    reasons: tuple[str, ...]
    general: GeneralPhases

    @property
    def chosen(self) -> Worker:
        """What runs on a Hopper GPU."""
        return Worker.CLUSTER if self.cluster else Worker.GENERAL

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        c = self.cluster
        cluster = c and {
            "clusters": c.clusters,
            "sms_of_a_cluster": GROUP_SMS,
            "pipelining": c.pipelining,
            "attention": c.attention,
            "prompt_tokens_of_a_step": c.step_rows,
            "prompt_tokens_of_a_pass": PASS_TOKENS,
            "phases_per_layer": len(c.layer),
            "barriers_per_layer": c.barriers_per_layer,
            "phases": c.phases,
            "barriers": c.barriers,
            "step_bytes": c.step_bytes,
            "step_bytes_without_kv_head": c.step_bytes_without_kv_head if c.clusters > GROUPS else None,
            "step_bytes_max_over_mean": round(c.max_over_mean, 4),
            "layer": [asdict(phase) for phase in c.layer],
            "end": [asdict(phase) for phase in c.end],
        }
        return {
            "on_hopper": self.chosen.value,
            "why_not_cluster": list(self.reasons),
            "cluster": cluster,
            "general": asdict(self.general),
        }

    def to_table(self) -> RenderableType:
        """A table for each worker that can run the model."""
        if self.cluster:
            return Group(
                *self._cluster(self.cluster), "on every other target: the general worker", self._general()
            )
        reasons = "\n".join(f"- {reason}" for reason in self.reasons)
        head = "on every target: the general worker; on a Hopper GPU not the cluster worker, because"
        return Group(Text(f"{head}\n{reasons}"), self._general())

    def _cluster(self, c: ClusterPhases) -> tuple[RenderableType, ...]:
        g = self.general
        owning = "each with a KV head"
        if c.clusters > GROUPS:
            owning = f"{GROUPS} of them with a KV head each;\nor as many as the chip fits (15 on an H200)"
        head = Text(
            f"on a Hopper GPU: the cluster worker, {c.clusters} groups (clusters) of {GROUP_SMS} SMs, "
            f"{owning};\n"
            f"not the general worker, which has {g.phases_per_layer} dependent phases a layer "
            f"({g.barriers_per_layer} barriers)"
        )
        table = Table()
        for column in ("phase", "waits for", "edge"):
            table.add_column(column)
        table.add_column("bytes an SM streams", justify="right")
        if c.clusters > GROUPS:
            table.add_column("without KV head", justify="right")
        for phase in (*c.layer, *c.end):
            sizes = [phase.bytes, phase.bytes_without_kv_head][: len(table.columns) - 3]
            row = [phase.name, phase.waits_for, phase.edge.value, *map(size_text, sizes)]
            table.add_row(*row, end_section=phase is c.layer[-1])
        total = (
            f"{len(c.layer)} dependent phases a layer, {c.barriers_per_layer} of them behind a barrier of "
            f"all SMs; {c.phases:,} phases and {c.barriers:,} barriers a step;\n"
            f"{SEVERAL_ROWS if c.step_rows > 1 else ''}"
            "bytes are means over layers, those of attention for full contexts;\n"
            f"weights that an SM streams in a step: {_step_text(c)}\n"
            f"prompts of up to {c.step_rows} tokens are read by the first step, longer ones by a kernel "
            f"before it,\nall but the last token, {PASS_TOKENS} tokens at a time; scored ones row by row\n"
        )
        return head, table, Text(total)

    def _general(self) -> RenderableType:
        g = self.general
        table = Table()
        for column in ("phase", "waits for", "edge"):
            table.add_column(column)
        for phase in g.layer:
            part = f"part of the tasks, {phase.events} event{'s' if phase.events > 1 else ''}"
            edge = "all tasks (barrier)" if phase.barrier else part
            table.add_row(phase.name, ", ".join(phase.waits_for), edge)
        total = (
            f"{g.phases_per_layer} dependent phases a layer, {g.barriers_per_layer} barriers; "
            f"{g.phases:,} phases and {g.barriers:,} barriers a step"
        )
        return Group(table, Text(total))


def choose_worker(compilation: Compilation) -> Workers:
    """What runs a compiled model on a Hopper GPU of as many SMs as it is laid out for."""
    general = general_phases(compilation)
    decoder = cluster_decoder(compilation.plan)
    if not isinstance(decoder, Decoder):
        return Workers(None, tuple(decoder), general)
    workers = compilation.plan.runtime.workers
    if reason := too_few_sms(workers):
        return Workers(None, (reason,), general)
    clusters = used_clusters(workers, decoder.ffn)
    return Workers(_cluster_phases(decoder, clusters), (), general)


def _cluster_phases(d: Decoder, clusters: int) -> ClusterPhases:
    qkv, output, gate_up, down, logits = _streams(d, clusters)
    # The keys and values of full contexts, which is the most that they can be.
    cache = d.batch * d.context * 2 * d.head * DType.BF16.itemsize // GROUP_SMS
    layer = (
        ClusterPhase("QKV", "down, of the layer before", Edge.ALL, *qkv),
        ClusterPhase(ATTENTION, "QKV", Edge.GROUP, cache, 0),
        ClusterPhase("output", ATTENTION, Edge.GROUP, *output),
        ClusterPhase("gate, up and SiLU", "output", Edge.ALL, *gate_up),
        ClusterPhase("down", "gate, up and SiLU", Edge.GROUP, *down),
    )
    end = (
        ClusterPhase("logits", "down, of the last layer", Edge.ALL, *logits),
        ClusterPhase("sampling, advance", "logits", Edge.TO_ONE, 0, 0),
        ClusterPhase("next step", "sampling, advance", Edge.FROM_ONE, 0, 0),
    )
    attention = "jit" if d.jit_attention else "aot"
    return ClusterPhases(clusters, len(d.layers), layer, end, d.pipelining, attention, d.rows)


def _streams(d: Decoder, clusters: int) -> Iterator[tuple[int, int]]:
    """Bytes of QKV, output, gate and up, down, logits of an SM: with a KV head in its cluster, and without.

    All clusters have an equal share of the FFN and of the logits: so those without a KV head stream less, but
    nobody waits in a layer for a cluster that has more of its FFN.
    """
    row = d.hidden * DType.BF16.itemsize
    for share in (d.heads + 2 * d.kv_heads) * d.head, d.heads * d.head:
        yield round(share * row / GROUPS / GROUP_SMS), 0
    for share in 2 * d.ffn, d.ffn, d.vocab:
        each = round(share * row / clusters / GROUP_SMS)
        yield each, each


def _step_text(c: ClusterPhases) -> str:
    if c.clusters == GROUPS:
        return size_text(c.step_bytes)
    with_head, without = size_text(c.step_bytes), size_text(c.step_bytes_without_kv_head)
    return f"{with_head} with a KV head, {without} without; the most is {c.max_over_mean:.3g} times the mean"
