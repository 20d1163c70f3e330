"""Attacks texts with a classifier that Python has at hand: `rbench.attack(...)`. Nothing is written, unless asked."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from rbench.api.asked import options_of, plain
from rbench.api.given_victims import GivenVictim, How, victim_of
from rbench.api.results import AttackResult
from rbench.api.run import device_of, workers_for
from rbench.errors import JobError, PlanError
from rbench.load.alone import ChosenAttack, chosen_attack
from rbench.load.registry import Registry, unknown
from rbench.plan.prepare import Options
from rbench.progress import Progress
from rbench.progress.notebook import shown
from rbench.score import exchanged_labels
from rbench.spec import AttackSpec, Outcome, ResourceChoice, ResourceProfile, TaskSpec
from rbench.tasks import Example

if TYPE_CHECKING:
    from rbench.attack import AttackTask


IN_MEMORY = 4
"""Examples that are attacked at once, for a network in memory on a CPU."""


def attack_texts(
    victim: Any,
    texts: Iterable[Any],
    labels: Iterable[Any],
    attack: str | Mapping[str, Any] = "textfooler",
    *,
    label_names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    resources: str | Mapping[str, Any] = "standard",
    seed: int = 0,
    scores: Literal["probabilities", "logits"] = "probabilities",
    batch_size: int = 64,
    max_length: int | None = None,
    progress: Progress | bool = True,
    **settings: Any,
) -> AttackResult:
    """Attack texts that a classifier reads, and return what became of each. Nothing is written.

    Args:
        victim: a function from a list of texts to rows of probabilities; `(model, tokenizer)` or a text-classification
            pipeline of transformers; a ModelWrapper of TextAttack; a folder or hub id of a classifier; a folder in
            which rbench saved a victim; "module:function"; or a mapping with the keys of a file under `victims`.
        texts: strings; or tuples, or mappings from column to text, for classifiers of two texts.
        labels: of each text its number in the order of the victim's outputs, or its name.
        attack: a name of `rbench list attacks` or of a TextAttack class, or {name: {option: value}}.
        label_names: the victim's labels, in the order of its outputs; None: as the model states them.
        columns: names of columns; None: `text`, or `text_1` and `text_2`. Attacks leave a `premise` alone if the other
            is a `hypothesis`.
        resources: what stands behind the attack: a name of `rbench list resources`, or {"profile": "local", ...}.
        seed: of the attack's random choices.
        scores, batch_size: what a function returns, and the most texts that it gets at once.
        max_length: longest input of a model in tokens; None: the longest that it reads.
        progress: as in `rbench.run`.
        settings: device, backend, workers (for a victim in a folder or on the hub), pooled, max_seconds, models and
            include, as in `Options`.

    Raises:
        RbenchError: the victim, a text, a label, an option or a resource is wrong. Nothing was attacked.
        JobError: the attack failed on every example, or the victim failed as a whole.
    """
    options = options_of(None, settings, also=inspect.signature(attack_texts).parameters)
    _check_settings(settings)
    given = read(texts, labels, columns)
    registry = Registry(options.include)
    chosen = chosen_attack(_choice(attack, "attack"), registry)
    found = victim_of(victim, How(scores, batch_size, max_length, options.models, registry))
    _check_victim(found, chosen, options)
    profile, places = _resources(resources, chosen.spec, registry, options)
    names = found.names(label_names, given.first)
    asked = _Asked(found, chosen, given.task(names), seed, profile, places, options)
    return asked.result(given.examples(names), progress)


@dataclass(frozen=True)
class _Asked:
    """One attack on one victim, and how its examples are attacked."""

    victim: GivenVictim
    chosen: ChosenAttack
    task: TaskSpec
    seed: int
    profile: ResourceProfile
    places: Mapping[Any, Any]
    options: Options

    def result(self, examples: list[Example], progress: Progress | bool) -> AttackResult:
        """Attack the examples, and return their outcomes in their order. Raises JobError where none has one."""
        name, started = f"{self.chosen.label} on {self.victim.name}", time.monotonic()
        with shown(progress) as receiver:
            outcomes = _followed(self._outcomes(examples), len(examples), name, receiver)
            notes = _notes(outcomes, self.task)
            for note in notes:
                receiver.note(note)
        _check_outcomes(outcomes)
        order = {example.id: i for i, example in enumerate(examples)}
        return AttackResult(
            victim=self.victim.name,
            attack=self.chosen.label,
            task=self.task,
            seed=self.seed,
            resources=self.profile.name,
            outcomes=tuple(sorted(outcomes, key=lambda outcome: order[outcome.example_id])),
            seconds=time.monotonic() - started,
            notes=notes,
        )

    def _outcomes(self, examples: list[Example]) -> Iterator[Outcome]:
        """Yield an outcome for each example, in the order in which they end."""
        from rbench.attack import check

        check(self.chosen.spec)
        refused = {example.id: outcome for example in examples if (outcome := unreadable(example)) is not None}
        yield from refused.values()
        examples = [example for example in examples if example.id not in refused]
        if self.victim.locate is not None:
            yield from self._in_processes(examples)
        else:
            yield from self._here(examples)

    def _in_processes(self, examples: list[Example]) -> Iterator[Outcome]:
        task = self._attack_task()
        with workers_for(len(examples), self.options, device_of(self.options.device)) as workers:
            if workers is not None:
                yield from workers.run(task, examples)

    def _attack_task(self) -> AttackTask:
        from rbench.attack import AttackTask

        assert self.victim.locate is not None
        module = self.chosen.module
        return AttackTask(
            spec=self.chosen.spec,
            path=None if module is None else module.path,
            task=self.task,
            seed=self.seed,
            victim=self.victim.locate(self.task),
            name=self.victim.name,
            resources=self.profile,
            places=tuple(sorted(self.places.items())),
            digest=None if module is None else module.digest,
            foreign=module is not None and not module.bundled,
            given=None if self.victim.given is None else self.victim.given(self.task.labels),
        )

    def _here(self, examples: list[Example]) -> Iterator[Outcome]:
        """Attack with a victim that only this process has."""
        from rbench.attack import build, run
        from rbench.resources import Resources

        assert self.victim.opened is not None
        device, module = device_of(self.options.device), self.chosen.module
        resources = Resources(self.profile, places=dict(self.places), device=device, backend=self.options.backend)
        try:
            victim = self.victim.opened(self.task, self.options.backend)
            yield from run(
                lambda: build(
                    self.chosen.spec,
                    victim,
                    resources,
                    self.task,
                    path=None if module is None else module.path,
                    digest=None if module is None else module.digest,
                ),
                examples,
                spec=self.chosen.spec,
                task=self.task,
                seed=self.seed,
                pooled=self.options.pooled or int(getattr(victim, "pooled", IN_MEMORY)),
                max_seconds=self.options.max_seconds,
            )
        finally:
            self.victim.restore()


def _choice(value: Any, what: str) -> Any:
    """Return a name, or a mapping of a name to its options, as plain data."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and value:
        return plain(value)
    raise PlanError(f"{what}={value!r}: expected a name, or a mapping of a name to its options")


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse options of suites, which would do nothing here."""
    used = ("device", "backend", "workers", "pooled", "max_seconds", "models", "include")
    for name in settings:
        if name not in used:
            raise PlanError(f"{name} is an option of suites; rbench.attack has {', '.join(used)}")


def _check_victim(victim: GivenVictim, chosen: ChosenAttack, options: Options) -> None:
    if chosen.gradients and not victim.gradients:
        raise PlanError(
            f"attack {chosen.label} needs the gradients of a network, and {victim.name} is asked for answers alone. "
            "Give the classifier as (model, tokenizer), or as its folder, or take an attack without gradients, such as "
            "textfooler"
        )
    if options.workers not in (1, None) and victim.locate is None:
        raise PlanError(
            f"workers={options.workers}: {victim.name} is in the memory of this process, and others cannot ask it. "
            "Leave workers out, or save the model and give its folder"
        )


def _resources(
    choice: str | Mapping[str, Any], spec: AttackSpec, registry: Registry, options: Options
) -> tuple[ResourceProfile, dict[Any, Any]]:
    """Return the resources that the attack needs, and where they are. Raises ResourceError for what is missing."""
    from rbench import load, resources

    try:
        made = ResourceChoice.model_validate(_choice(choice, "resources"))
    except ValidationError as error:
        said = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False))
        raise PlanError(f"resources: {said}") from error
    profile = load.load_resources(made, registry)
    lm = profile.masked_lm
    if "masked_lm" in spec.needs and lm is not None and lm.kind == "encoder":
        raise PlanError(
            f"attack {spec.name} needs a masked LM, and that of the resources {profile.name} is one that a run trains "
            f"({lm.name}). Name another: resources={{'profile': '{profile.name}', 'masked_lm': FOLDER_OR_ID}}"
        )
    return profile, resources.locate(profile, {kind: [spec.name] for kind in spec.needs}, options.models)


def _followed(found: Iterator[Outcome], total: int, name: str, progress: Progress) -> list[Outcome]:
    """Collect the outcomes, and report them as they come."""
    outcomes: list[Outcome] = []
    hit = missed = 0
    progress.start(name, 1, 1)
    for outcome in found:
        outcomes.append(outcome)
        hit, missed = hit + (outcome.status == "succeeded"), missed + (outcome.status == "failed")
        text = f"ASR {100 * hit / (hit + missed):.0f}% of {hit + missed}" if hit + missed else ""
        progress.update(len(outcomes), total, text)
    progress.finish("complete")
    return outcomes


def _notes(outcomes: Sequence[Outcome], task: TaskSpec) -> tuple[str, ...]:
    """Return what a reader of the result must know: that labels may be exchanged."""
    known = [
        (one.original_prediction, one.label)
        for one in outcomes
        if one.original_prediction is not None and one.label is not None
    ]
    found = exchanged_labels([said for said, _ in known], [label for _, label in known], task.labels)
    return () if found is None else (f"{found.flag}? {found.because}, and at `label_names`",)


def _check_outcomes(outcomes: Sequence[Outcome]) -> None:
    if all(outcome.status == "errored" for outcome in outcomes):
        error = (outcomes[0].error or "no error was recorded").strip()
        raise JobError(f"the attack failed on every example; on the first:\n{error}")


NAME = "texts"
"""The name of the task that such texts make."""
FIRST = 8
"""Texts that a function is asked for, until it answers one, to know its labels."""
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class GivenTexts:
    """Texts as rows of columns, and a label for each: the number of a class, or its name."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: tuple[int | str, ...]

    @property
    def first(self) -> list[str | tuple[str, ...]]:
        """The first texts as a victim gets them: strings, or tuples of columns. They are valid Unicode in any case."""
        rows = map(_whole, self.rows[:FIRST])
        return [row[0] if len(self.columns) == 1 else row for row in rows]

    def task(self, names: Sequence[str]) -> TaskSpec:
        """Return the task of these texts, whose classes have `names`.

        With the columns premise and hypothesis it is of the kind `nli`, in which attacks leave the premise alone.
        """
        pair = "nli" if self.columns == ("premise", "hypothesis") else "pair"
        kind = "single" if len(self.columns) == 1 else pair
        return TaskSpec.model_validate(
            {"name": NAME, "title": "texts", "kind": kind, "columns": self.columns, "labels": tuple(names)}
        )

    def examples(self, names: Sequence[str]) -> list[Example]:
        """Return the examples, whose ids are the positions of the texts from 0.

        Raises PlanError where a label is none of `names`, and none of their numbers.
        """
        ids = {name.casefold(): i for i, name in enumerate(names)}
        found = []
        for i, (row, label) in enumerate(zip(self.rows, self.labels, strict=True)):
            number = ids.get(label.casefold()) if isinstance(label, str) else label
            if number is None:
                raise PlanError(
                    f"labels[{i}]: {unknown('label', str(label), names)}. If the victim's outputs mean something else, "
                    "say what, in their order: label_names=[...]"
                )
            if not 0 <= number < len(names):
                raise PlanError(f"labels[{i}] is {number}, and the victim has the labels 0 to {len(names) - 1}")
            found.append(Example(str(i), row, number))
        return found


def read(texts: Iterable[Any], labels: Iterable[Any], columns: Sequence[str] | None) -> GivenTexts:
    """Read texts (strings, tuples of strings, or mappings by column) and labels (whole numbers, or names).

    Raises PlanError where there are none, their numbers differ, or one is of another type.
    """
    if isinstance(texts, str | Mapping):
        raise PlanError("texts is a single text; give a list of texts, and a list of their labels")
    if not isinstance(texts, Iterable):
        raise PlanError(f"texts is {texts!r}; give a list of texts")
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise PlanError(f"labels is {labels!r}; give a list with a label for each text")
    given, known = list(texts), list(labels)
    if not given:
        raise PlanError("there are no texts to attack")
    if len(given) != len(known):
        raise PlanError(f"there are {len(given)} texts and {len(known)} labels; each text needs one")
    if columns is None:
        columns = _columns(given[0])
    rows = tuple(_row(i, text, tuple(columns)) for i, text in enumerate(given))
    return GivenTexts(tuple(columns), rows, tuple(_label(i, label) for i, label in enumerate(known)))


def unreadable(example: Example) -> Outcome | None:
    """Return the outcome of a text that is not valid Unicode, so that no victim can read it; None for other texts.

    Such texts come from files that were read with errors="surrogateescape", and from halves of emojis in JSON. The
    outcome has U+FFFD in the places of the half characters, so that it can be printed and written.
    """
    found = next((found for text in example.texts if (found := _SURROGATE.search(text))), None)
    if found is None:
        return None
    return Outcome(
        example_id=example.id,
        status="errored",
        original=_whole(example.texts),
        label=example.label,
        error=f"UnicodeError: texts[{example.id}] has half a character (a lone surrogate) at position {found.start()}, "
        'which is not valid Unicode. Read its file with errors="replace", or leave it out.',
    )


def _whole(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(_SURROGATE.sub("\ufffd", text) for text in texts)


def _columns(first: Any) -> tuple[str, ...]:
    """Return the names of columns, from the first text: those of a mapping, else `text`, or `text_1`, `text_2`."""
    if isinstance(first, Mapping):
        return tuple(map(str, first))
    if isinstance(first, str) or not isinstance(first, list | tuple) or len(first) == 1:
        return ("text",)
    return tuple(f"text_{i + 1}" for i in range(len(first)))


def _row(i: int, text: Any, columns: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(text, Mapping):
        if {*map(str, text)} != {*columns}:
            raise PlanError(f"texts[{i}] has the columns {', '.join(map(str, text))}, not {', '.join(columns)}")
        text = [text[column] for column in columns]
    parts = (text,) if isinstance(text, str) else tuple(text) if isinstance(text, list | tuple) else (text,)
    for part in parts:
        if not isinstance(part, str):
            raise PlanError(f"texts[{i}]: expected a text, or a tuple of texts, found {type(part).__name__}")
    if len(parts) != len(columns):
        raise PlanError(
            f"texts[{i}] has {len(parts)} texts, and there are {len(columns)} columns: {', '.join(columns)}"
        )
    return parts


def _label(i: int, label: Any) -> int | str:
    if hasattr(label, "item") and getattr(label, "ndim", None) == 0:  # numbers of numpy and torch
        label = label.item()
    if isinstance(label, float) and label.is_integer():  # a column of pandas with gaps elsewhere
        label = int(label)
    if isinstance(label, bool):
        label = int(label)
    if not isinstance(label, int | str):
        raise PlanError(f"labels[{i}]: expected a whole number or a name, found {label!r}")
    return label
