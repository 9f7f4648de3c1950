"""The task templates: which C++ type does the work of an operator kind. A new kind is one more row."""

from __future__ import annotations

from dataclasses import dataclass

from kgen.ir.attention import Attention
from kgen.ir.elementwise import Add, SiluMul
from kgen.ir.embedding import Embedding
from kgen.ir.linear import Linear, Logits, SwiGlu
from kgen.ir.operator import Operator
from kgen.ir.rmsnorm import RmsNorm
from kgen.ir.sample import Advance, Sample
from kgen.plan.plan import Variant

EMPTY_KIND = "empty"


@dataclass(frozen=True, slots=True)
class TaskTemplate:
    """A C++ task type, the constants that it is instantiated with and its operand slots, both in order.

    A slot is the operator's field of that name; `?` marks one that an operator may lack.
    """

    family: type[Operator] | None  # None for the tasks that normalization adds
    cpp_type: str
    constants: tuple[str, ...]
    slots: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The operator kind."""
        return self.family.kind if self.family else EMPTY_KIND

    @property
    def header(self) -> str:
        """The header of the C++ type."""
        return f"mpk/tasks/{self.kind}.hpp"


_ATTENTION = (
    "heads kv_heads head kv_page scale eps has_q_norm has_k_norm has_rope rope_theta rope_factor"
    " rope_low_freq rope_high_freq rope_original_context"
)


def _row(family: type[Operator] | None, name: str, constants: str, slots: str) -> TaskTemplate:
    return TaskTemplate(family, f"mpk::tasks::{name}", tuple(constants.split()), tuple(slots.split()))


TEMPLATES: dict[str, TaskTemplate] = {
    row.kind: row
    for row in (
        _row(Embedding, "Embedding", "hidden", "tokens table out"),
        _row(RmsNorm, "RmsNorm", "n eps", "x weight out"),
        _row(Linear, "Linear", "n k has_bias has_residual", "x weight out bias? residual?"),
        _row(SwiGlu, "SwiGlu", "n k", "x gate up out"),
        _row(Logits, "Logits", "n k", "x weight out"),
        _row(Attention, "Attention", _ATTENTION, "qkv out q_norm? k_norm?"),
        _row(SiluMul, "SiluMul", "n", "gate up out"),
        _row(Add, "Add", "n", "a b out"),
        _row(Sample, "Sample", "vocab", "logits out"),
        _row(Advance, "Advance", "", "sampled tokens"),
        _row(None, "Empty", "", ""),
    )
}


@dataclass(frozen=True)
class Selection:
    """The instantiations, and for each operator which one it uses and its tensors by slot.

    `empty` is the variant of empty tasks, None if there are none.
    """

    variants: tuple[Variant, ...]
    variant_of: tuple[int, ...]
    tensors_of: tuple[tuple[str, ...], ...]
    empty: int | None
