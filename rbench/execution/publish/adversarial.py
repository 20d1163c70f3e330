"""Write an adversarial set as a data set in the layout of the Hugging Face Hub: parquet, a card, and `rbench.json`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import yaml

import rbench
from rbench.config.references import cited
from rbench.errors import PlanError
from rbench.execution.publish.encoder import cell, licence_fields, occupied, rendered
from rbench.schema import AttackJob, Job, Outcome, Record, SetFile, Source, TaskSpec
from rbench.system.below import Below
from rbench.tasks import adversarial

_MEANS = {
    "all": "every example that was attacked or skipped; those that did not fall keep their original text",
    "attacked": "every example that the victim had right; those that did not fall keep their original text",
    "successes": "the examples with which the attack succeeded, and no others",
}


@dataclass(frozen=True)
class Made:
    """An attack whose outcomes become a set."""

    job: Job
    record: Record
    """Of the attack."""
    victim: Job
    outcomes: Sequence[Outcome]
    only: adversarial.Only = "all"

    @property
    def spec(self) -> AttackJob:
        """The specification of the attack."""
        assert self.job.attacking is not None
        return self.job.attacking


def render(made: Made, about: SetFile) -> str:
    """Return the card as markdown. Texts of entries are escaped, so they cannot leave their YAML value or cell."""
    task = made.spec.task
    return rendered(
        "adversarial.md.jinja",
        front=yaml.safe_dump(_front(task), sort_keys=False, allow_unicode=True),
        title=f"{cell(task.title or task.name)}, attacked with {cell(about.attack)}",
        version=rbench.__version__,
        about=about,
        means=_MEANS[about.only],
        facts=[(label, cell(value)) for label, value in _facts(made) if value],
        columns=[(cell(name), meaning) for name, meaning in _columns(task)],
        notes=[cell(note) for note in dict.fromkeys((*task.notes, *made.spec.attack.notes))],
    )


def _front(task: TaskSpec) -> dict[str, Any]:
    """Return the metadata block; see the hub's documentation of data set cards."""
    licence = " ".join(task.licence.split())
    front: dict[str, Any] = {**licence_fields("" if licence.lower().replace("-", " ") == "not stated" else licence)}
    front["language"] = "en" if task.generator is None else "art"  # ISO 639: an artificial language
    front["task_categories"] = [task.of_kind.hub_category]
    if task.hub is not None:
        front["source_datasets"] = [source.id for source in task.hub.sources]
    front["tags"] = ["adversarial", "robustness", "rbench"]
    data_files = [{"split": "test", "path": adversarial.DATA.as_posix()}]
    front["configs"] = [{"config_name": "default", "data_files": data_files}]
    return front


def _victim(made: Made) -> list[tuple[str, str]]:
    """Return the lines about the victim: how it was fine-tuned, or that it existed."""
    spec, name = made.victim.tuning, made.job.parts[0]
    if spec is None:
        return [("victim", f"{name}, a classifier that was attacked as it is, seed {made.victim.seed}")]
    training = spec.training
    return [
        ("victim", f"{name}, fine-tuned with {made.job.parts[2]}, seed {made.victim.seed}"),
        (
            "fine-tuning",
            f"{training.epochs} epochs, batches of {training.batch_size}, learning rate {training.learning_rate:g}, "
            f"texts cut at {training.max_length} tokens",
        ),
    ]


def _facts(made: Made) -> list[tuple[str, str]]:
    """Return label and value of each line of the table of the card that says how the set was made."""
    spec, source = made.spec, made.record.provenance
    attack = spec.attack
    options = ", ".join(f"{name} {value}" for name, value in sorted(attack.parameters.items()))
    limits = ((attack.max_words, "words at most"), (attack.query_budget, "queries at most"))
    said = (f"{value} {what}" for value, what in limits if value is not None)
    recipe = f"TextAttack's recipe {attack.recipe}" if attack.recipe else "rbench's own code"
    return [
        ("task", f"{spec.task.name}, split {spec.split}: {spec.task.title or spec.task.name}"),
        ("source of the texts", cited(spec.task.reference)),
        ("licence of the texts", spec.task.licence or "not stated"),
        ("hash of the task's rows", spec.data_fingerprint),
        *_victim(made),
        ("hash of the victim's weights", source.weights_hash or ""),
        ("attack", f"{made.job.parts[3]} ({'; '.join(filter(None, (recipe, *said, options)))})"),
        ("reference of the attack", cited(attack.reference)),
        *((f"resource: {kind}", _resource(kind, made)) for kind in attack.needs),
        ("success", spec.task.of_kind.success_rule(spec)),
        ("seed", f"{made.job.seed}, which decides the victim, the sample of {spec.num_examples} texts and the attack"),
        ("made with", f"rbench {source.rbench}, textattack {source.packages.get('textattack', 'unknown')}"),
        ("key of the attack", made.job.key),
    ]


def _resource(kind: str, made: Made) -> str:
    source: Source | None = getattr(made.spec.resources, kind)
    digest = made.record.provenance.resources.get(kind) or made.spec.resource_fingerprints.get(kind, "")
    name = "" if source is None or source.name is None else f" {_short(source.name)}"
    return f"{source.kind if source is not None else 'none'}{name}, content hash {digest or 'not recorded'}"


def _short(name: str) -> str:
    """Return a name without the folders of this machine."""
    return PurePath(name).name if PurePath(name).is_absolute() else name


def _columns(task: TaskSpec) -> list[tuple[str, str]]:
    scored, answer = task.of_kind.has_scores, task.of_kind.answer
    return [
        ("id", "of the example in the task's test split: file or split, and row"),
        *((column, "text: changed where `status` is `succeeded`, else the original one") for column in task.columns),
        *((adversarial.original_column(column), f"original text of `{cell(column)}`") for column in task.columns),
        ("score", "gold score, on the task's scale") if scored else ("label", "class of the original text"),
        ("status", "`succeeded`, `failed`, or `skipped`: wrong before any change, or without a word to change"),
        ("original_prediction", f"the victim's {answer} for the original text"),
        ("perturbed_prediction", f"the victim's {answer} for the last text that the attack tried"),
        ("num_queries", "questions to the victim, counted before any cache, the one for the original included"),
        ("num_words", "words of the original text"),
        ("num_words_changed", "how many of them the attack changed"),
    ]


def check_place(folder: Path, *, overwrite: bool) -> None:
    """Check that a set may be written to `folder`: it is new or empty, or `overwrite` is true.

    Raises:
        PlanError: `folder` is a file, or is not empty, or is in a place that cannot be written.
    """
    if occupied(folder) and not overwrite:
        raise PlanError(
            f"{folder} is not empty; name another folder, or add --overwrite, which replaces the files of a set and "
            "leaves others as they are"
        )


def write(made: Made, folder: Path, *, overwrite: bool = False) -> SetFile:
    """Write a set to `folder`, and return what its `rbench.json` says.

    The files are written beside `folder` and then moved, so that no file is ever half written. A folder that is there
    loses nothing but the files of a set (`rbench.tasks.adversarial.FILES`), and these only with `overwrite`.

    Raises:
        PlanError: as `check_place`, or the task has a column whose name a set needs, or no example is a row.
        ResourceError: the outcomes have no texts.
    """
    check_place(folder, overwrite=overwrite)
    about = _about(made)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rbench-set-", dir=folder.parent) as name:
        staged = Path(name) / folder.name
        (staged / adversarial.DATA).parent.mkdir(parents=True)
        _write_rows(made, staged / adversarial.DATA)
        (staged / adversarial.CARD).write_text(render(made, about), encoding="utf-8")
        (staged / adversarial.ABOUT).write_text(about.model_dump_json(indent=1) + "\n", encoding="utf-8")
        if not folder.exists() or not any(folder.iterdir()):
            staged.replace(folder)
        else:
            for file in adversarial.FILES:
                Below(folder).make_folder((folder / file).parent)
                (staged / file).replace(folder / file)
    return about


def _about(made: Made) -> SetFile:
    task, (encoder, _, finetune, attack) = made.spec.task, made.job.parts
    columns = (*task.columns, *map(adversarial.original_column, task.columns), *adversarial.OWN)
    if twice := sorted({column for column in columns if columns.count(column) > 1}):
        raise PlanError(f"task {task.name} has a column `{twice[0]}`, a name that sets use themselves: rename it")
    rows = [adversarial.row_of(outcome) for outcome in adversarial.kept(made.outcomes, made.only)]
    counts = adversarial.counts_of(made.outcomes, len(rows))
    if not rows:
        found = ", ".join(f"{n} {name}" for name, n in counts.items() if name not in ("rows", "total"))
        raise PlanError(f"{made.job.name}: no example is a row with --only {made.only} ({found}): nothing was written")
    return SetFile(
        task=task.name,
        kind=task.kind,
        columns=task.columns,
        labels=task.labels,
        encoder=encoder,
        finetune=finetune,
        attack=attack,
        seed=made.job.seed,
        victim=made.victim.key,
        job=made.job.key,
        only=made.only,
        counts=counts,
        fingerprint=adversarial.fingerprint_of(rows),
    )


def _write_rows(made: Made, path: Path) -> None:
    import datasets
    from datasets import ClassLabel, Dataset, Features, Value

    task, kept = made.spec.task, adversarial.kept(made.outcomes, made.only)
    rows = [adversarial.row_of(outcome) for outcome in kept]
    text, whole, scored = Value("string"), Value("int64"), task.of_kind.has_scores
    answer = Value("float64") if scored else ClassLabel(names=list(task.labels))
    values: dict[str, tuple[Any, list[Any]]] = {"id": (text, [row.id for row in rows])}
    for i, column in enumerate(task.columns):
        values[column] = (text, [row.texts[i] for row in rows])
    for i, column in enumerate(task.columns):
        values[adversarial.original_column(column)] = (text, [row.original[i] for row in rows])
    values["score" if scored else "label"] = (answer, [row.label for row in rows])
    values["status"] = (text, [row.status for row in rows])
    for side in ("original", "perturbed"):
        name = f"{side}_score" if scored else f"{side}_prediction"
        values[f"{side}_prediction"] = (answer, [getattr(outcome, name) for outcome in kept])
    for name in ("num_queries", "num_words", "num_words_changed"):
        values[name] = (whole, [getattr(outcome, name) for outcome in kept])
    features = Features({name: kind for name, (kind, _) in values.items()})
    made_of = Dataset.from_dict({name: column for name, (_, column) in values.items()}, features=features)
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        made_of.to_parquet(path)
    finally:
        if shown:
            datasets.enable_progress_bars()
