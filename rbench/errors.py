"""The exceptions of rbench. An error that a user can cause is an `RbenchError`; the user sees its message alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from rbench.masking import masked


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a user's file or option. As text it is the line that the user reads."""

    place: str
    """Where it stands: FILE:LINE:COLUMN, or an option of the command line."""
    what: str
    """What is wrong, with the remedy or the nearest names."""

    def __str__(self) -> str:
        return f"{self.place}: {self.what}".replace("\n", "\\n")


class RbenchError(Exception):
    """Base class of all errors that rbench raises on purpose.

    The command line prints the message without a traceback and exits with status 2. Secrets in it are masked.
    """

    problems: tuple[Problem, ...] = ()
    """All that is wrong, where it has places. The message may show the first of them alone."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(masked(arg) if isinstance(arg, str) else arg for arg in args))

    @classmethod
    def at(cls, place: str, what: str) -> Self:
        """Return the error of one problem with a place."""
        return cls(f"{place}: {what}").with_problems([Problem(place, what)])

    def with_problems(self, problems: Iterable[Problem]) -> Self:
        """Return this error with what it is made of."""
        self.problems = tuple(Problem(masked(problem.place), masked(problem.what)) for problem in problems)
        return self


class SuiteError(RbenchError):
    """A suite, task, encoder or attack file is wrong. The message names file, line, column and the nearest names."""


class PlanError(RbenchError):
    """A suite is well formed but cannot be run. For example, it asks for more examples than a split has."""


class ResourceError(RbenchError):
    """Data, weights or a lexical resource are missing or unusable. The message says who needs them and the remedy."""


class MissingInputs(ResourceError):
    """Inputs of a suite are missing.

    Args:
        problems: all that is wrong with its inputs, each with its remedy.
        missing: the names of those that are nowhere, by kind: data sets, models, resources of attacks.
        wrong: the problems that are about something else, such as a wrong row.
    """

    def __init__(self, problems: Sequence[str], missing: Mapping[str, Sequence[str]], wrong: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.missing = {kind: tuple(dict.fromkeys(names)) for kind, names in missing.items() if names}
        self.wrong = tuple(wrong)


class JobError(RbenchError):
    """A job failed while it ran. The run goes on with the jobs that do not need it and exits with status 1."""


class ModelChangedError(JobError, ResourceError):
    """A function or a server gives other answers than before, so another model answers. Nothing that was answered since
    it was last seen to be the same is kept."""


class StoreError(RbenchError):
    """A RUN folder is in use, damaged, or written by an incompatible version of rbench."""


class LeaseLost(RbenchError):
    """Another process took over what this one did, because this one seemed dead. It must write nothing more."""


class AnswerError(Exception):
    """What a function or a server answered cannot be used. A victim's example that asked for it is errored."""
