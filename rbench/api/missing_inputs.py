"""Tells in three lines that many inputs of a suite are missing: how many, what can run here, and how to get them."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rbench import config as loading
from rbench.api import call_options
from rbench.config.positions import Problems, read_yaml
from rbench.config.registry import Registry
from rbench.errors import MissingInputs, RbenchError, ResourceError
from rbench.plan.prepare import Options, PreparedSuite, prepare_loaded
from rbench.system import hub

FEW_INPUTS = 3
"""So many missing inputs are told one by one, each with its remedy."""
MAX_OFFERED = 2
"""The most profiles that are named with their hours."""


def shorten_error(error: MissingInputs, suite: str | Path, options: Options) -> ResourceError:
    """Return an error of three lines in place of one that has a line for each of many missing inputs.

    What else is wrong stands before these lines. Where few inputs are missing, the error is returned as it is.
    """
    count = sum(map(len, error.missing.values()))
    if count <= FEW_INPUTS:
        return error
    parts = [f"{len(names)} {kind if len(names) > 1 else _singular(kind)}" for kind, names in error.missing.items()]
    listed = ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]
    why = hub.why_unreachable()
    headline = f"{suite} cannot run here: {listed} are missing" + (f" ({why})" if why else "")
    return ResourceError(
        "\n".join([*error.wrong, headline, _offer_profiles(suite, error, options), _remedy_command(suite, options)])
    )


def _singular(kind: str) -> str:
    first, *rest = kind.split(" of ")
    return " of ".join([first.removesuffix("s"), *rest])


def _offer_profiles(suite: str | Path, error: MissingInputs, options: Options) -> str:
    content = read_yaml(loading.find_suite(suite, Registry(options.include)), Problems()).data.get("profiles") or {}
    others = [name for name in content if name != options.profile]
    offers = []
    for name, prepared in _runnable_profiles(suite, others, error, options):
        offers.append(f"--profile {name} ({_format_hours(prepared)})")
        if len(offers) == MAX_OFFERED:
            break
    if offers:
        which = "This profile" if len(offers) == 1 else "These profiles"
        return f"{which} of it can run here, in about the time in brackets: {', '.join(offers)}"
    return f"No other profile of it can run here either: {', '.join(others)}" if others else "It has no other profile"


def _runnable_profiles(
    suite: str | Path, names: list[str], error: MissingInputs, options: Options
) -> Iterator[tuple[str, PreparedSuite]]:
    """Yield the profiles that can run here. Those that name a missing data set are not looked at more closely."""
    missing = {name for kind_names in error.missing.values() for name in kind_names}
    for name in names:
        profile_options = dataclasses.replace(options, profile=name)
        with suppress(RbenchError):
            loaded = call_options.load_suite(suite, profile_options)
            if missing & {*loaded.tasks}:
                continue
            try:
                yield name, prepare_loaded(loaded, profile_options)
            except MissingInputs as further:
                missing |= {name for kind_names in further.missing.values() for name in kind_names}


def _format_hours(prepared: PreparedSuite) -> str:
    from rbench.execution import forecast
    from rbench.system.progress import format_duration

    plan = prepared.plan
    planned = forecast.Planned(plan, plan.jobs, prepared.run, frozenset(), {}, [], prepared=prepared)
    return format_duration(3600 * forecast.forecast(planned).hours)


def _remedy_command(suite: str | Path, options: Options) -> str:
    """Return the command that says how to get what is missing, with the options that decide what it is."""
    words = ["rbench", "status", "--environment", str(suite)]
    words += ["--profile", options.profile] if options.profile is not None else []
    for override in options.overrides:
        words += ["--set", override]
    for flag, folders in (("--data", options.data), ("--models", options.models), ("--include", options.include)):
        for folder in folders:
            words += [flag, str(folder)]
    return f"To get what is missing: {shlex.join([*words, '--fix'])}"
