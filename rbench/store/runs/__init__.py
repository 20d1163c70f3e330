"""Store the records and outcomes of a RUN on disk: atomic, resumable, and checked against each other.

    RUN/plan.json             what the suite asked for
    RUN/<stage>/<first 16 digits of the job's key>/
        record.json           written once, when the job ends
        outcomes.jsonl        a line per attacked or built example, written together at the end
        outcomes.<p>.jsonl    of an attack that has not ended: what the process <p> has done, appended one by one
        predictions.jsonl     a line per text of a contrast set, written together
        rows.jsonl            a line per row of a measure, written together

A process may be killed at any moment. A record is there completely or not at all. At most the last line that a process
appended is incomplete, and its example is attacked again. Each line and each record names its job, so two jobs whose
folders have the same name are never confused.

A complete record holds the digests of the files beside it. If a file does not match its digest, the job counts as not
done: `look` says why, and `PartialOutcomes` keeps the lines whose own checksums are right.

The store does not run, score or print anything. It does not handle weights, which are in the cache.
"""

from __future__ import annotations

from rbench.store.runs.reader import OutcomeLines, RunReader, StoredRecord, folder_name, read_columns
from rbench.store.runs.store import PartialOutcomes, RunStore

__all__ = ["OutcomeLines", "PartialOutcomes", "RunReader", "RunStore", "StoredRecord", "folder_name", "read_columns"]
