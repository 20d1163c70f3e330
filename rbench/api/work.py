"""What a process is told that another one started for a run (`Request`), and what it does then."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue, TypeAdapter, ValidationError

from rbench.api import asked
from rbench.api.run import run_prepared
from rbench.api.run_result import RunResult
from rbench.errors import PlanError
from rbench.plan.prepare import Options, Prepared, prepare, prepare_loaded
from rbench.progress import Progress
from rbench.spec import Plan, Suite
from rbench.storage.team import digest


@dataclass(frozen=True)
class Request:
    """A suite and how to run it, as one line of JSON."""

    suite: str | dict[str, JsonValue]
    """A name, the path of a file, or what such a file would hold."""
    options: Options
    plan: str
    """What tells the plan from others, as the process planned that started this one."""
    report: bool = False
    """Whether the process that ends the run writes the RUN's report."""

    def to_json(self) -> str:
        """Return the request as one line."""
        return _reader().dump_json(self).decode()


@functools.cache
def _reader() -> TypeAdapter[Request]:
    return TypeAdapter(Request)


def requested(text: str) -> Request:
    """Read a request. Raises PlanError if it is none."""
    try:
        return _reader().validate_json(text)
    except ValidationError as error:
        raise PlanError(f"the request is of another version of rbench: {error.errors()[0]['msg']}") from error


def prepared_for(suite: str | Path | Mapping[str, Any] | Suite, options: Options) -> Prepared:
    """Prepare a suite that a call names, or that it gives as a mapping."""
    if isinstance(suite, str | Path):
        return prepare(suite, options)
    return prepare_loaded(asked.loaded(suite, options), options)


def told_apart(plan: Plan) -> str:
    """Return what is the same for two plans with the same jobs of the same suite."""
    return digest(plan.model_copy(update={"texts": True}))


def work(request: Request, progress: Progress) -> RunResult:
    """Run the suite beside the other processes. Raises PlanError if it has another plan on this machine."""
    prepared = prepared_for(request.suite, request.options)
    if told_apart(prepared.plan) != request.plan:
        raise PlanError(
            f"{prepared.run}: the plan is another one on this machine. Give all machines the same data, weights "
            "and versions of rbench and its packages; `rbench doctor SUITE` says on each what it finds where."
        )
    return run_prepared(prepared, request.options, progress, report=request.report)
