"""Checks that rbench can call a module's function with the arguments that rbench passes to it."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any, NamedTuple

from rbench.errors import SuiteError
from rbench.load.code import Module
from rbench.load.positions import shown
from rbench.load.registry import KINDS, Kind


class Call(NamedTuple):
    """How rbench calls a function of a module."""

    function: str
    arguments: tuple[str, ...]
    """The positional arguments, with the names that the guide uses."""
    remedy: str
    """The advice for a module whose signature differs."""


CALLS: dict[Kind, Call] = {
    "finetune": Call(
        "run",
        ("options", "context"),
        "Write `def run(options, context)`, take encoder, data, training, seed, device, progress, resources and "
        "generated from `context`, and return `Finetuned(victim, scores)`; see docs/guide-add-a-strategy.md.",
    ),
    "figures": Call(
        "draw",
        ("options", "results"),
        "Write `def draw(options, results)`, and return a figure made with `rbench.figures.style.new`; see "
        "docs/guide-add-a-figure.md.",
    ),
    "metrics": Call(
        "value",
        ("of",),
        "Write `def value(of)`, and return an array with a number for each unit; see docs/guide-add-a-metric.md.",
    ),
}
"""The calls that are checked, by kind of module."""
OPTIONAL: dict[Kind, tuple[Call, ...]] = {
    "measures": (
        Call(
            "table",
            ("options", "results"),
            "Write `def table(options, results)`, and return a `Table`; see docs/guide-add-a-measure.md.",
        ),
        Call(
            "run",
            ("options", "context"),
            "Write `def run(options, context)`, and return rows; see docs/guide-add-a-measure.md.",
        ),
    ),
    "metrics": (
        Call(
            "counted",
            ("of",),
            "Write `def counted(of)`, and return a Share or a Sample; see docs/guide-add-a-metric.md.",
        ),
    ),
}
"""The calls that are checked where a module defines the function."""


def check_call(found: Module, module: ModuleType) -> None:
    """Raise SuiteError, with file and line, where the module's function cannot be called as CALLS says."""
    always = [CALLS[found.kind]] if found.kind in CALLS else []
    there = [call for call in OPTIONAL.get(found.kind, ()) if hasattr(module, call.function)]
    for call in (*always, *there):
        _check(call, found, module)


def _check(call: Call, found: Module, module: ModuleType) -> None:
    function: Any = getattr(module, call.function)
    try:
        signature = inspect.signature(function)
        signature.bind(*call.arguments)
    except (TypeError, ValueError):
        raise SuiteError(
            f"{shown(found.path)}:{_line(function, found)}:1: rbench calls the `{call.function}` of a "
            f"{KINDS[found.kind].one} as {call.function}({', '.join(call.arguments)}), and this one "
            f"{_description(function)}. {call.remedy}"
        ) from None


def _description(function: Any) -> str:
    try:
        return f"takes ({', '.join(inspect.signature(function).parameters)})"
    except (TypeError, ValueError):
        return "is not a function"


def _line(function: Any, found: Module) -> int:
    """Return the line where the function begins, or 1 where it comes from another file."""
    code = getattr(function, "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == str(found.path) else 1
