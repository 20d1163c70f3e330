"""What can go wrong, by whose hand. What a user may cause is an `RbenchError` and reaches them as a sentence."""

from __future__ import annotations


class RbenchError(Exception):
    """Base of all errors that rbench raises on purpose; the command line prints them without a traceback (exit 2)."""


class SuiteError(RbenchError):
    """A suite, task, encoder or attack file is wrong: the message names file, line, column and the nearest names."""


class PlanError(RbenchError):
    """A suite is well formed but cannot be run, for instance because it asks for more examples than a split has."""


class ResourceError(RbenchError):
    """Data, weights or a lexical resource is missing or unusable: the message says who needs it and how to get it."""


class JobError(RbenchError):
    """A job failed while it ran; the run goes on with the jobs that do not need it (exit 1)."""


class StoreError(RbenchError):
    """A RUN folder is locked, damaged, or written by an incompatible version of rbench."""
