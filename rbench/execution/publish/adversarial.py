"""Write an adversarial set as a data set in the layout of the Hugging Face Hub: parquet, a card, and `rbench.json`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import yaml

import rbench
from rbench.config.references import format_references
from rbench.errors import PlanError
from rbench.execution.publish.encoder import escape_cell, is_occupied, licence_fields, render_template
from rbench.schema import AttackJob, Job, Outcome, Record, ResourceSource, SetFile, TaskSpec
from rbench.system.below import SafeFolder
from rbench.tasks import adversarial

_ROWS_OF = {
    "all": "every example that was attacked or skipped; those that did not fall keep their original text",
    "attacked": "every example that the victim had right; those that did not fall keep their original text",
    "successes": "the examples with which the attack succeeded, and no others",
}


@dataclass(frozen=True)
class AttackedSource:
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


def render_card(attacked: AttackedSource, about: SetFile) -> str:
    """Return the card as markdown. Texts of entries are escaped, so they cannot leave their YAML value or cell."""
    task = attacked.spec.task
    return render_template(
        "adversarial.md.jinja",
        front=yaml.safe_dump(_front_matter(task), sort_keys=False, allow_unicode=True),
        title=f"{escape_cell(task.title or task.name)}, attacked with {escape_cell(about.attack)}",
        version=rbench.__version__,
        about=about,
        means=_ROWS_OF[about.only],
        facts=[(label, escape_cell(value)) for label, value in _set_facts(attacked) if value],
        columns=[(escape_cell(name), meaning) for name, meaning in _describe_columns(task)],
        notes=[escape_cell(note) for note in dict.fromkeys((*task.notes, *attacked.spec.attack.notes))],
    )


def _front_matter(task: TaskSpec) -> dict[str, Any]:
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


def _victim_facts(attacked: AttackedSource) -> list[tuple[str, str]]:
    """Return the lines about the victim: how it was fine-tuned, or that it existed."""
    spec, name = attacked.victim.tuning, attacked.job.parts[0]
    if spec is None:
        return [("victim", f"{name}, a classifier that was attacked as it is, seed {attacked.victim.seed}")]
    training = spec.training
    return [
        ("victim", f"{name}, fine-tuned with {attacked.job.parts[2]}, seed {attacked.victim.seed}"),
        (
            "fine-tuning",
            f"{training.epochs} epochs, batches of {training.batch_size}, learning rate {training.learning_rate:g}, "
            f"texts cut at {training.max_length} tokens",
        ),
    ]


def _set_facts(attacked: AttackedSource) -> list[tuple[str, str]]:
    """Return label and value of each line of the table of the card that says how the set was made."""
    spec, source = attacked.spec, attacked.record.provenance
    attack = spec.attack
    options = ", ".join(f"{name} {value}" for name, value in sorted(attack.parameters.items()))
    limits = ((attack.max_words, "words at most"), (attack.query_budget, "queries at most"))
    limit_texts = (f"{value} {what}" for value, what in limits if value is not None)
    recipe = f"TextAttack's recipe {attack.recipe}" if attack.recipe else "rbench's own code"
    return [
        ("task", f"{spec.task.name}, split {spec.split}: {spec.task.title or spec.task.name}"),
        ("source of the texts", format_references(spec.task.reference)),
        ("licence of the texts", spec.task.licence or "not stated"),
        ("hash of the task's rows", spec.data_fingerprint),
        *_victim_facts(attacked),
        ("hash of the victim's weights", source.weights_hash or ""),
        ("attack", f"{attacked.job.parts[3]} ({'; '.join(filter(None, (recipe, *limit_texts, options)))})"),
        ("reference of the attack", format_references(attack.reference)),
        *((f"resource: {kind}", _describe_resource(kind, attacked)) for kind in attack.needs),
        ("success", spec.task.of_kind.success_rule(spec)),
        (
            "seed",
            f"{attacked.job.seed}, which decides the victim, the sample of {spec.num_examples} texts and the attack",
        ),
        ("made with", f"rbench {source.rbench}, textattack {source.packages.get('textattack', 'unknown')}"),
        ("key of the attack", attacked.job.key),
    ]


def _describe_resource(kind: str, attacked: AttackedSource) -> str:
    source: ResourceSource | None = getattr(attacked.spec.resources, kind)
    digest = attacked.record.provenance.resources.get(kind) or attacked.spec.resource_fingerprints.get(kind, "")
    name = "" if source is None or source.name is None else f" {_without_folders(source.name)}"
    return f"{source.kind if source is not None else 'none'}{name}, content hash {digest or 'not recorded'}"


def _without_folders(name: str) -> str:
    """Return a name without the folders of this machine."""
    return PurePath(name).name if PurePath(name).is_absolute() else name


def _describe_columns(task: TaskSpec) -> list[tuple[str, str]]:
    scored, answer = task.of_kind.has_scores, task.of_kind.answer
    return [
        ("id", "of the example in the task's test split: file or split, and row"),
        *((column, "text: changed where `status` is `succeeded`, else the original one") for column in task.columns),
        *(
            (adversarial.original_column(column), f"original text of `{escape_cell(column)}`")
            for column in task.columns
        ),
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
    if is_occupied(folder) and not overwrite:
        raise PlanError(
            f"{folder} is there already; name another folder, or add --overwrite, which replaces the files of a set "
            "and leaves others as they are"
        )


def write_set(attacked: AttackedSource, folder: Path, *, overwrite: bool = False) -> SetFile:
    """Write a set to `folder`, and return what its `rbench.json` says.

    The files are written beside `folder` and then moved, so that no file is ever half written. A folder that is there
    loses nothing but the files of a set (`rbench.tasks.adversarial.FILES`), and these only with `overwrite`.

    Raises:
        PlanError: as `check_place`, or no example is a row.
        ResourceError: the outcomes have no texts.
    """
    check_place(folder, overwrite=overwrite)
    about = _set_file(attacked)
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside `folder`, so that the moves below stay in one file system and each is a single step.
    with tempfile.TemporaryDirectory(prefix=".rbench-set-", dir=folder.parent) as name:
        staged = Path(name) / folder.name
        (staged / adversarial.DATA).parent.mkdir(parents=True)
        _write_rows(attacked, staged / adversarial.DATA)
        (staged / adversarial.CARD).write_text(render_card(attacked, about), encoding="utf-8")
        (staged / adversarial.ABOUT_FILE).write_text(about.model_dump_json(indent=1) + "\n", encoding="utf-8")
        if not folder.exists() or not any(folder.iterdir()):
            staged.replace(folder)
        else:
            for file in adversarial.FILES:
                SafeFolder(folder).make_folder((folder / file).parent)
                (staged / file).replace(folder / file)
    return about


def _set_file(attacked: AttackedSource) -> SetFile:
    task, (encoder, _, finetune, attack) = attacked.spec.task, attacked.job.parts
    rows = [adversarial.build_row(outcome) for outcome in adversarial.select_outcomes(attacked.outcomes, attacked.only)]
    counts = adversarial.count_statuses(attacked.outcomes, len(rows))
    if not rows:
        counted = ", ".join(f"{n} {name}" for name, n in counts.items() if name not in ("rows", "total"))
        raise PlanError(
            f"{attacked.job.name}: no example is a row with --only {attacked.only} ({counted}): nothing was written"
        )
    return SetFile(
        task=task.name,
        kind=task.kind,
        columns=task.columns,
        labels=task.labels,
        encoder=encoder,
        finetune=finetune,
        attack=attack,
        seed=attacked.job.seed,
        victim=attacked.victim.key,
        job=attacked.job.key,
        only=attacked.only,
        counts=counts,
        fingerprint=adversarial.hash_rows(rows),
    )


def _write_rows(attacked: AttackedSource, path: Path) -> None:
    import datasets
    from datasets import ClassLabel, Dataset, Features, Value

    task, row_outcomes = attacked.spec.task, adversarial.select_outcomes(attacked.outcomes, attacked.only)
    rows = [adversarial.build_row(outcome) for outcome in row_outcomes]
    text, integer, has_scores = Value("string"), Value("int64"), task.of_kind.has_scores
    answer = Value("float64") if has_scores else ClassLabel(names=list(task.labels))
    values: dict[str, tuple[Any, list[Any]]] = {"id": (text, [row.id for row in rows])}
    for i, column in enumerate(task.columns):
        values[column] = (text, [row.texts[i] for row in rows])
    for i, column in enumerate(task.columns):
        values[adversarial.original_column(column)] = (text, [row.original[i] for row in rows])
    values["score" if has_scores else "label"] = (answer, [row.label for row in rows])
    values["status"] = (text, [row.status for row in rows])
    for side in ("original", "perturbed"):
        name = f"{side}_score" if has_scores else f"{side}_prediction"
        values[f"{side}_prediction"] = (answer, [getattr(outcome, name) for outcome in row_outcomes])
    for name in ("num_queries", "num_words", "num_words_changed"):
        values[name] = (integer, [getattr(outcome, name) for outcome in row_outcomes])
    features = Features({name: kind for name, (kind, _) in values.items()})
    dataset = Dataset.from_dict({name: column for name, (_, column) in values.items()}, features=features)
    bars_shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        dataset.to_parquet(path)
    finally:
        if bars_shown:
            datasets.enable_progress_bars()
