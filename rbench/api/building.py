"""Build adversarial sets from Python: of one attack that is run for it, or of the outcomes of a RUN."""

from __future__ import annotations

import dataclasses
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rbench import config as loading
from rbench.api.results import run_prepared
from rbench.config.registry import Registry
from rbench.errors import PlanError, RbenchError, StoreError
from rbench.execution.publish.adversarial import AttackedSource, check_place, write_set
from rbench.plan.prepare import Options, prepare_loaded
from rbench.schema import Job, NumExamples, Plan, SetFile
from rbench.schema.unlisted import label_meant, short_name
from rbench.store.runs import RunStore
from rbench.system.progress import Progress, SilentProgress
from rbench.tables.results import load_plan
from rbench.tasks.adversarial import Only

_MAX_LISTED = 6
"""How many attacks a message lists. It counts the others."""


@dataclass(frozen=True)
class AttackSelection:
    """What names one attack of a RUN. None: whatever there is, if it is one."""

    encoder: str | None = None
    """A name or label; or a folder or hub id, for an encoder without a file."""
    task: str | None = None
    attack: str | None = None
    finetune: str | None = None
    seed: int | None = None


@dataclass(frozen=True)
class BuiltSet:
    """A set that was written."""

    folder: Path
    run: Path
    """The RUN whose outcomes it holds."""
    about: SetFile


def build_adversarial(
    cell: AttackSelection,
    folder: Path,
    options: Options | None = None,
    *,
    num_examples: NumExamples = 1000,
    resources: str | None = None,
    only: Only = "all",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> BuiltSet:
    """Fine-tune one victim, attack it, and write the attacked texts as a set; the cell names encoder, task and attack.

    The outcomes stay in the RUN `options.out`, by default `results/runs/adversarial-ENCODER-TASK-ATTACK`, so that the
    same call goes on where an earlier one was interrupted.

    Raises:
        RbenchError: before any work if a name, a resource or `folder` is wrong; later if the attack failed.
    """
    options = options or Options()
    if not options.texts:
        raise PlanError("an adversarial set is made of texts, so its RUN must keep them: leave --no-texts out")
    check_place(folder, overwrite=overwrite)
    suite = _build_suite(cell, num_examples, resources)
    registry = Registry(options.include)
    loaded = loading.load_mapping(suite, registry=registry, overrides=options.overrides, origin="rbench attack --out")
    prepared = prepare_loaded(loaded, dataclasses.replace(options, only=()))
    result = run_prepared(prepared, options, progress or SilentProgress())
    if result.failed:
        raise RbenchError(f"{result.failed[0].job.name} failed: {result.failed[0].error}")
    return build_adversarial_from(result.run, folder, AttackSelection(), only=only, overwrite=overwrite)


def build_adversarial_from(
    run: Path, folder: Path, cell: AttackSelection, *, only: Only = "all", overwrite: bool = False
) -> BuiltSet:
    """Write a set from the stored outcomes of a RUN.

    Raises:
        StoreError: `run` is not a RUN or keeps no texts, `cell` names none of its attacks or several, or the attack is
            not finished.
        PlanError: `folder` is not empty, or there is nothing to write.
    """
    check_place(folder, overwrite=overwrite)
    plan = load_plan(store := RunStore(run))
    if not plan.texts:
        raise StoreError(
            f"{run} keeps no texts, and a set is made of them: it was run with --no-texts, or is a copy without texts. "
            "Use the RUN from which it was copied, or run the suite into another --out without --no-texts."
        )
    job = _find_attack(plan, cell, run)
    record = store.record(job)
    if record is None or record.status != "complete":
        raise StoreError(_unfinished_message(store, plan, job, failed=record is not None))
    if (victim := job.needs.get("victim")) is None:
        raise PlanError(
            f"{job.name} attacks no classifier: sets are made of texts that have classes. Name another attack."
        )
    attacked_texts = AttackedSource(job, record, plan.job(victim), store.outcomes(job), only)
    return BuiltSet(folder, run, write_set(attacked_texts, folder, overwrite=overwrite))


def _build_suite(cell: AttackSelection, num_examples: NumExamples, resources: str | None) -> dict[str, Any]:
    encoder = str(cell.encoder)
    named = (short_name(encoder) if "/" in encoder else encoder, cell.task, cell.attack)
    suite: dict[str, Any] = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(("adversarial", *map(str, named)))),
        "encoders": [cell.encoder],
        "tasks": [cell.task],
        "attacks": [cell.attack],
        "seeds": [cell.seed or 0],
        "num_examples": num_examples,
    }
    if cell.finetune is not None:
        suite["finetune"] = [cell.finetune]
    if resources is not None:
        suite["resources"] = resources
    elif str(cell.task).startswith("mini-"):
        suite["resources"] = "mini"
    return suite


def _find_attack(plan: Plan, cell: AttackSelection, run: Path) -> Job:
    """Return the one attack on test texts that `cell` names."""
    attacks = [job for job in plan.jobs if job.attacking is not None and job.attacking.split == "test"]
    encoder = cell.encoder and label_meant(cell.encoder, {job.parts[0] for job in attacks})
    wanted = (encoder, cell.task, cell.finetune, cell.attack, cell.seed)
    matches = [
        job
        for job in attacks
        if all(wish in (None, part) for wish, part in zip(wanted, (*job.parts, job.seed), strict=True))
    ]
    if len(matches) == 1:
        return matches[0]
    listed = matches or attacks
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    names = ", ".join(job.name for job in listed[:_MAX_LISTED]) + more
    if not matches:
        raise StoreError(f"{run} has no such attack. It has {names or 'none'}.")
    flags = ("encoder", "task", "finetune", "attack", "seed")
    differ = [f"--{flag}" for i, flag in enumerate(flags) if len({(*job.parts, job.seed)[i] for job in matches}) > 1]
    raise StoreError(f"{run} has {len(matches)} such attacks: {names}. Choose one with {', '.join(differ)}.")


def _unfinished_message(store: RunStore, plan: Plan, job: Job, *, failed: bool) -> str:
    """Say that an attack is not finished, and which command finishes it."""
    assert job.attacking is not None
    num_done, wanted, suite = len(store.outcomes(job)), job.attacking.num_examples, plan.suite.name
    root = store.root.resolve().name
    profile = root.removeprefix(f"{suite}-") if root.startswith(f"{suite}-") else None
    words = ["rbench", "run", suite, *(["--profile", profile] if profile else [])]
    command = shlex.join([*words, "--out", str(store.root), "--only", job.name])
    return (
        f"{job.name} {'failed' if failed else 'is not finished'}: {num_done} of {wanted} examples have outcomes. A set "
        "is made of a finished attack. This finishes it (with the --profile, --set, --data and --models of the first "
        f"run): {command}"
    )
