"""Finds the classifiers that exist, and checks them against the tasks of a suite, before anything runs."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from pathlib import Path

from rbench.errors import JobError, PlanError, ResourceError, SuiteError
from rbench.load import Loaded
from rbench.system.located import Located


def locate_victims(loaded: Loaded, models_path: Sequence[Path], problems: list[str]) -> dict[tuple[str, str], Located]:
    """Locate the classifiers that exist, by name and task. Add a problem for each that is missing or does not fit.

    Functions and endpoints are asked a fixed probe, whose answers are their fingerprint.
    """
    found = {}
    for (name, spec), task in itertools.product(loaded.victims.items(), loaded.suite.tasks):
        from rbench.victims.place import locate

        try:
            found[name, task] = locate(spec, loaded.tasks[task], models_path)
        except (ResourceError, JobError, SuiteError) as error:
            problems.append(str(error))
    return found


def unseen_sources(loaded: Loaded) -> list[str]:
    """Return a note on each function whose source is in no file, so that its `version` alone stands for it."""
    from rbench.victims.place import source_of

    return [
        f"victim {name}: the source of {spec.function} is in no Python file, so a change of it is not noticed; write "
        "another `version` whenever it changes"
        for name, spec in loaded.victims.items()
        if spec.function is not None and source_of(spec) is None
    ]


def with_concurrency(loaded: Loaded, concurrency: int) -> Loaded:
    """Return the suite with `concurrency` requests under way at once to each of its endpoints. No key depends on it.

    Raises PlanError where no classifier of the suite is an endpoint.
    """
    if not any(spec.endpoint is not None for spec in loaded.victims.values()):
        raise PlanError("--concurrency is how many requests an endpoint gets at once, and there is no endpoint here")
    changed = {
        name: spec.model_copy(
            update={"endpoint": spec.endpoint.model_copy(update={"concurrency": concurrency})} if spec.endpoint else {}
        )
        for name, spec in loaded.victims.items()
    }
    return dataclasses.replace(loaded, victims=changed)
