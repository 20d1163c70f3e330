"""Tests that verbs have the options that functions of Python declare, with defaults, and docstrings as help."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

from rbench import api
from rbench.cli import app
from rbench.cli.arguments import FLAGS, PANELS, SHARED, VALUES, make_parameter, read_declared

FUNCTIONS = [
    *("api.runs.table", "api.judging.compare", "api.judging.check", "api.judging.write_baseline"),
    "api.encoder_watch.check_encoder",
    *("api.sites.site", "api.training.train"),
]
CLASSES = {"plan.prepare.Options": api.Options, "execution.cluster.executor.Executor": api.Executor}


@pytest.mark.parametrize("of", FUNCTIONS)
def test_the_source_says_what_the_function_declares(of: str) -> None:
    module, _, name = of.rpartition(".")
    parameters = inspect.signature(getattr(importlib.import_module(f"rbench.{module}"), name)).parameters.values()
    expected = {
        one.name: ... if one.default is one.empty else one.default
        for one in parameters
        if one.kind is not one.VAR_KEYWORD
    }
    assert {name: one.default for name, one in read_declared(of).items()} == expected


@pytest.mark.parametrize("of", CLASSES)
def test_the_source_says_what_the_class_declares(of: str) -> None:
    fields = dataclasses.fields(CLASSES[of])
    assert [*read_declared(of)] == [one.name for one in fields]
    for one in fields:
        assert read_declared(of)[one.name].default == (None if one.default is dataclasses.MISSING else one.default)


def options(command: Any) -> Iterator[Any]:
    yield from command.params
    for one in getattr(command, "commands", {}).values():
        yield from options(one)


def test_every_option_and_argument_of_every_verb_has_help() -> None:
    found = [one for one in options(get_command(app)) if one.name not in ("install_completion", "show_completion")]
    assert len(found) > 150 and [one.name for one in found if not one.help] == []


def test_what_is_said_for_the_command_line_is_of_parameters_that_there_are() -> None:
    known = {*SHARED} | {name for of in (*FUNCTIONS, *CLASSES) for name in read_declared(of)}
    known |= {f"{of.rpartition('.')[2]}.{name}" for of in FUNCTIONS for name in read_declared(of)}
    said = {name for table in (PANELS, VALUES) for names in table.values() for name in names.split()} | FLAGS.keys()
    assert said - known == set()


def test_a_docstring_is_help_with_the_default_that_none_stands_for() -> None:
    kind, option = make_parameter("plan.prepare.Options", "concurrency", shared=True)
    assert (kind, option.help) == (
        int | None,
        "Requests under way at once to each endpoint. (default: concurrency of its file)",
    )
    assert (option.metavar, option.min, option.rich_help_panel) == ("N", 1, "How to run")
    kind, option = make_parameter("plan.prepare.Options", "only", shared=True)
    assert kind == list[str] | None and option.help.endswith("and what they need. May be repeated.")
    kind, option = make_parameter("api.training.train", "what")
    assert kind is str and isinstance(option, typer.models.ArgumentInfo) and r"'simcse-mini\[seed=1]'" in option.help
