"""The exceptions of rbench. An error that a user can cause is an `RbenchError`; the user sees its message alone."""

from __future__ import annotations

from rbench.masking import masked


class RbenchError(Exception):
    """Base class of all errors that rbench raises on purpose.

    The command line prints the message without a traceback and exits with status 2. Secrets in it are masked.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*(masked(arg) if isinstance(arg, str) else arg for arg in args))


class SuiteError(RbenchError):
    """A suite, task, encoder or attack file is wrong. The message names file, line, column and the nearest names."""


class PlanError(RbenchError):
    """A suite is well formed but cannot be run. For example, it asks for more examples than a split has."""


class ResourceError(RbenchError):
    """Data, weights or a lexical resource are missing or unusable. The message says who needs them and the remedy."""


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
