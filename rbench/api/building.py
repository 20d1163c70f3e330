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
_AXES = ("encoder", "task", "finetune", "attack", "seed")
"""What an attack is chosen by: the parts of its name, and its seed."""


@dataclass(frozen=True)
class AttackSelection:
    """The names that choose one attack of a RUN. None: any, so that the others must choose one."""

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
    store = RunStore(run)
    plan = load_plan(store)
    if not plan.texts:
        raise StoreError(
            f"{run} keeps no texts, and a set is made of them: it was run with --no-texts, or is a copy without texts. "
            "Use the RUN from which it was copied, or run the suite into another --out without --no-texts."
        )
    job = _find_attack(plan, cell, run)
    record = store.record(job)
    if record is None or record.status != "complete":
        raise StoreError(_unfinished_message(store, plan, job, failed=record is not None))
    victim_key = job.needs.get("victim")
    if victim_key is None:
        raise PlanError(
            f"{job.name} attacks no classifier: sets are made of texts that have classes. Name another attack."
        )
    source = AttackedSource(job, record, plan.job(victim_key), store.outcomes(job), only)
    return BuiltSet(folder, run, write_set(source, folder, overwrite=overwrite))


def _build_suite(cell: AttackSelection, num_examples: NumExamples, resources: str | None) -> dict[str, Any]:
    encoder = str(cell.encoder)
    short_encoder = short_name(encoder) if "/" in encoder else encoder
    suite: dict[str, Any] = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", f"adversarial-{short_encoder}-{cell.task}-{cell.attack}"),
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
    names_by_job = {job.key: dict(zip(_AXES, (*job.parts, job.seed), strict=True)) for job in attacks}
    wanted = {axis: getattr(cell, axis) for axis in _AXES}
    if cell.encoder:
        wanted["encoder"] = label_meant(cell.encoder, {job.parts[0] for job in attacks})
    matches = attacks
    for axis, name in wanted.items():
        if name is not None:
            matches = [job for job in matches if names_by_job[job.key][axis] == name]
    if len(matches) == 1:
        return matches[0]
    listed = matches or attacks
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    listed_names = ", ".join(job.name for job in listed[:_MAX_LISTED]) + more
    if not matches:
        raise StoreError(f"{run} has no such attack. It has {listed_names or 'none'}.")
    values_by_axis = {axis: {names_by_job[job.key][axis] for job in matches} for axis in _AXES}
    flags = ", ".join(f"--{axis}" for axis, values in values_by_axis.items() if len(values) > 1)
    raise StoreError(f"{run} has {len(matches)} such attacks: {listed_names}. Choose one with {flags}.")


def _unfinished_message(store: RunStore, plan: Plan, job: Job, *, failed: bool) -> str:
    """Say that an attack is not finished, and which command finishes it."""
    assert job.attacking is not None
    num_done, wanted, suite = len(store.outcomes(job)), job.attacking.num_examples, plan.suite.name
    command = ["rbench", "run", suite]
    # By default the folder of a RUN is named SUITE or SUITE-PROFILE.
    folder_name = store.root.resolve().name
    profile = folder_name.removeprefix(f"{suite}-") if folder_name.startswith(f"{suite}-") else ""
    if profile:
        command += ["--profile", profile]
    command += ["--out", str(store.root), "--only", job.name]
    return (
        f"{job.name} {'failed' if failed else 'is not finished'}: {num_done} of {wanted} examples have outcomes. A set "
        "is made of a finished attack. This finishes it (with the --profile, --set, --data and --models of the first "
        f"run): {shlex.join(command)}"
    )
