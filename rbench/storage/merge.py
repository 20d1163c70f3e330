"""Write several RUNs, read as one (`joined`), into a new RUN: `rbench merge`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rbench.errors import StoreError
from rbench.spec import Plan
from rbench.storage.joined import Joined
from rbench.storage.runs import Store, files
from rbench.storage.runs.reader import FILES
from rbench.storage.standing import standing
from rbench.storage.verify import verify


def check_inputs(runs: Iterable[Store], done: str = "merged") -> None:
    """Read everything in some RUNs and check it, as `rbench verify` does. Raises StoreError for all that is damaged.

    Args:
        done: what is not done with a damaged RUN.
    """
    damaged = [finding.text for run in runs for finding in verify(run.root).findings if finding.damage]
    if damaged:
        listed = "\n".join(f"  {text}" for text in damaged)
        raise StoreError(f"what is damaged is not {done}:\n{listed}")


def check_texts(plans: Iterable[tuple[Store, Plan]]) -> None:
    """Raise StoreError where some RUNs keep texts and others do not."""
    keeping = {run.root: plan.texts for run, plan in plans}
    if len({*keeping.values()}) > 1:
        with_texts = [str(root) for root, texts in keeping.items() if texts]
        raise StoreError(
            f"{', '.join(with_texts)} was made to keep texts and the other RUNs were not. Copy it without them first: "
            f"rbench strip {with_texts[0]}"
        )


def check_out(out: Path, runs: Iterable[Store]) -> None:
    """Raise StoreError if `out` is there already, or would lie in one of the RUNs."""
    if out.exists() or out.is_symlink():
        raise StoreError(f"{out} is there already. Choose another --out.")
    for run in runs:
        if out.resolve().is_relative_to(run.root.resolve()):
            raise StoreError(f"{out} lies in {run.root}, which is not to be changed. Choose another --out.")


def write(joined: Joined, out: Path) -> None:
    """Copy the plan, records, outcomes, predictions and rows of all jobs into the new folder `out`.

    Files are copied byte by byte. The folder gets its name once it is complete. Until then it lies beside, and is
    removed if anything goes wrong.

    Raises:
        StoreError: something cannot be read or written, or changed while it was copied.
    """
    plan = joined.plan()
    with files.growing(out) as unfinished:
        store = Store(unfinished, texts=plan.texts)
        store.write_plan(plan)
        for job in plan.jobs:
            names = {*FILES, *(path.name for path in joined.part_files(job))}
            for name in sorted(names):
                if (content := joined.content(job, name)) is not None:
                    files.write(store.folder(job) / name, content, store.below(job))
        copied = standing(store, plan)
        if copied.done != joined.standing.done or copied.problems.keys() != joined.standing.problems.keys():
            raise StoreError("a RUN changed while it was copied; run the same command again")
