"""Records and outcomes on disk: atomic, resumable, lockable, and checked against each other.

    RUN/plan.json                                                  what the suite asked for
    RUN/.lock                                                      held by the process that runs it
    RUN/<stage>/<readable parts>/seed<k>-<key8>/record.json        written once, when the job is over
    RUN/<stage>/<readable parts>/seed<k>-<key8>/outcomes.jsonl     one line an attacked example, appended as it happens
    RUN/<stage>/<readable parts>/seed<k>-<key8>/predictions.jsonl  one line a text of a contrast set, written at once

A process may be killed at any moment. A record is there whole or not at all; of the outcomes at most the last line is
torn, and that example is simply attacked again. Each line and each record names the job that it belongs to, so two jobs
whose folders happen to have the same name are never taken for one another.

A complete record holds the digests of the files beside it. Where a file is no longer what its digest says, the job is
not done: `look` says why, `resume` keeps the lines whose own checksums are right.

The store does not run, score or print anything, and knows nothing of weights, which lie in the cache.
"""

from __future__ import annotations

from rbench.storage.runs.names import folder_name
from rbench.storage.runs.store import Found, Read, Resumed, Store

__all__ = ["Found", "Read", "Resumed", "Store", "folder_name"]
