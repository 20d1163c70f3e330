"""Render the card of an adversarial set: a README.md with the Hub's front matter, and how the set was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import jinja2
import yaml

import rbench
from rbench.publish.card import LICENCES, cell
from rbench.spec import AttackJob, Job, Outcome, Record, SetFile, Source, TaskSpec
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
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    task = made.spec.task
    return environment.get_template("adversarial.md.jinja").render(
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
    identifier = "-".join(task.licence.lower().split())
    stated = bool(identifier) and identifier != "not-stated"
    front: dict[str, Any] = {"license": identifier if identifier in LICENCES else "other" if stated else "unknown"}
    if front["license"] == "other":
        front["license_name"] = " ".join(task.licence.split())
    front["language"] = "en" if task.generator is None else "art"  # ISO 639: an artificial language
    front["task_categories"] = ["sentence-similarity" if task.kind == "sts" else "text-classification"]
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
        ("source of the texts", spec.task.reference),
        ("licence of the texts", spec.task.licence or "not stated"),
        ("hash of the task's rows", spec.data_fingerprint),
        *_victim(made),
        ("hash of the victim's weights", source.weights_hash or ""),
        ("attack", f"{made.job.parts[3]} ({'; '.join(filter(None, (recipe, *said, options)))})"),
        ("reference of the attack", attack.reference),
        *((f"resource: {kind}", _resource(kind, made)) for kind in attack.needs),
        ("success", _rule(spec)),
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


def _rule(spec: AttackJob) -> str:
    if spec.task.kind != "sts":
        return "the victim's prediction for the changed text is not the label"
    goal = getattr(spec.attack, "similarity", None)  # attacks on STS tasks have it
    share = f"{goal.threshold:.0%} of the scale" if goal is not None else "the threshold of the attack's goal"
    return f"the absolute error of the victim's score grows by at least {share} (ours)"


def _columns(task: TaskSpec) -> list[tuple[str, str]]:
    scored = task.kind == "sts"
    answer = "score, on the task's scale" if scored else "class"
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
