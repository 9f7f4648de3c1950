"""Render a conversation with a checkpoint's chat template, which is Jinja from an untrusted file."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from kgen.weights.checkpoint import WeightsError


def render_chat(template: str, messages: list[dict[str, str]], *, bos_token: str, eos_token: str) -> str:
    """The prompt text up to where the assistant's answer begins.

    Templates get the names and settings that transformers gives them. Raises WeightsError when the template
    is not valid or refuses the messages.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token=bos_token, eos_token=eos_token
        )
    except TemplateError as error:
        raise WeightsError(f"the model's chat template does not accept this conversation: {error}") from error


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
