"""Find out what a call from Python gives as victim and as texts, before it is opened or read."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rbench.config.entries import FUNCTION, chosen_victim, named_by_file
from rbench.config.registry import Registry, unknown
from rbench.encoders.locate import PACKAGED
from rbench.encoders.model_metadata import HEADED
from rbench.errors import PlanError, RbenchError, ResourceError, SuiteError
from rbench.schema import Outcome, TaskSpec, VictimSpec, victim_name
from rbench.system.digests import Located, located
from rbench.system.own_code import told
from rbench.tasks import Example
from rbench.victims.config import labels_of, read_config
from rbench.victims.function import answers_of
from rbench.victims.scores import softmax

FORMS = (
    "a function from a list of texts to rows of probabilities, (model, tokenizer) or a pipeline of transformers, a "
    "ModelWrapper of TextAttack, a folder or hub id of a classifier, or a mapping like {'endpoint': {...}}"
)


@dataclass(frozen=True)
class How:
    """How a victim is asked. The first two are for functions, `max_length` is for models."""

    scores: Literal["probabilities", "logits"] = "probabilities"
    batch_size: int = 64
    max_length: int | None = None
    models: tuple[Path, ...] = ()
    registry: Registry = field(default_factory=Registry)


@dataclass(frozen=True)
class GivenVictim:
    """A victim that a call gave: at a place, where worker processes can open it too, or in memory.

    Args:
        name: for tables and messages.
        labels: its labels, in the order of its outputs; empty if they are only known when it is asked.
        opened: opens a victim in memory for a task, with a back-end: a wrapper for TextAttack. It stays on its device.
        locate: finds a victim at a place, for a task.
        given: says of a model that exists, whose labels have these names, what it is; None for other victims.
        gradients: whether attacks can have its gradients.
    """

    name: str
    labels: tuple[str, ...] = ()
    opened: Callable[[TaskSpec, str], Any] | None = None
    locate: Callable[[TaskSpec], Located] | None = None
    given: Callable[[Sequence[str]], VictimSpec] | None = None
    gradients: bool = True
    restore: Callable[[], object] = lambda: None
    """Leaves a victim in memory as it was given."""
    asks: Callable[[list[Any]], Any] | None = field(default=None, repr=False)
    """Of a function: itself."""

    def names(self, given: Sequence[str] | None, texts: Sequence[Any]) -> tuple[str, ...]:
        """Return the names of its labels, in the order of its outputs: `given`, or its own, or numbers.

        Args:
            given: the names that the user says.
            texts: examples, which a function is asked for, until it answers one, where nothing else tells how many
                labels it has.

        Raises PlanError where the names are too few, too many or not all different.
        """
        own = self.labels or self._asked(texts, known=given is not None)
        names = own if given is None else tuple(map(str, given))
        if own and len(names) != len(own):
            raise PlanError(
                f"label_names has {len(names)} names, and {self.name} has {len(own)} labels: {_listed(own)}"
            )
        by_name = self.asks is not None and own != tuple(map(str, range(len(own))))
        if by_name and {name.casefold() for name in names} != {name.casefold() for name in own}:
            raise PlanError(f"{self.name} answers by name: {_listed(own)}. Leave label_names out")
        if len({name.casefold() for name in names}) < len(names):
            raise PlanError(f"the labels of {self.name} are {_listed(names)}; say different names: label_names=[...]")
        if not names:
            raise PlanError(f"say the labels of {self.name}, in the order of its outputs: label_names=[...]")
        if len(names) < 2:
            raise PlanError(f"{self.name} has {len(names)} labels, and attacks need a classifier with two or more")
        return names

    def _asked(self, texts: Sequence[Any], known: bool) -> tuple[str, ...]:
        """Return the labels of the first answer. An exception concerns its text alone; if each of the texts raises one,
        there are no labels, which is an error unless they are `known`."""
        if self.asks is None:
            return ()
        for text in texts:
            try:
                return self._labels_of(text, self.asks([text]))
            except (RbenchError, KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                raised = error
        if known:
            return ()
        raise PlanError(
            f"{self.name} raised {told(raised, Path.cwd())}, for the first text and those after it; mend it, or take "
            "texts that it can read"
        ) from raised

    def _labels_of(self, text: Any, rows: Any) -> tuple[str, ...]:
        from rbench.errors import AnswerError
        from rbench.victims.scores import plain, unpacked

        rows = plain(list(rows) if isinstance(rows, Iterator) else rows)
        if not isinstance(rows, list) or len(rows) != 1:
            raise PlanError(
                f"{self.name} must return a list, array or tensor with a row for each text; asked for one "
                f"text, it returned {type(rows).__name__ if not isinstance(rows, list) else len(rows)}"
            )
        try:
            names, numbers = unpacked(rows[0])
        except AnswerError as error:
            raise PlanError(f"{self.name}, asked for {text!r}: {error}") from error
        return tuple(names) if names is not None else tuple(map(str, range(len(numbers))))


def victim_of(victim: Any, how: How) -> GivenVictim:
    """Return what is known of a victim before it is opened.

    Raises:
        PlanError: it is nothing that rbench can attack.
        SuiteError: it is a mapping or a text, and not well formed.
        ResourceError: it is text, and there is no such folder or model.
    """
    if isinstance(victim, GivenVictim):
        return victim
    if isinstance(victim, VictimSpec):
        return _existing(victim, how)
    if isinstance(victim, Mapping):
        return _existing(chosen_victim(victim, how.registry), how)
    if isinstance(victim, str | os.PathLike):
        return _named(os.fspath(victim), how)
    if _wraps_model(victim):
        return _network(victim.model, victim.tokenizer, how)
    if _is_wrapper(victim):
        return _function(victim, _as_textattack(victim), type(victim).__name__, how)
    if hasattr(victim, "model") and hasattr(victim, "tokenizer") and hasattr(victim, "task"):
        if victim.task not in ("text-classification", "sentiment-analysis"):
            raise PlanError(
                f"a pipeline for {victim.task} is no classifier; make it with pipeline('text-classification')"
            )
        longest = getattr(victim, "_preprocess_params", {}).get("max_length")
        how = replace(how, max_length=how.max_length or longest)
        return _network(victim.model, victim.tokenizer, how)
    if isinstance(victim, list | tuple) and len(victim) == 2 and hasattr(victim[0], "config"):
        return _network(victim[0], victim[1], how)
    if hasattr(victim, "config") and not hasattr(victim, "tokenizer"):
        raise PlanError(f"{type(victim).__name__} is a model without its tokenizer; give both: (model, tokenizer)")
    if callable(victim):
        return _function(victim, victim, getattr(victim, "__name__", type(victim).__name__), how)
    raise PlanError(f"a victim is {FORMS}, not {type(victim).__name__}")


# ------------------------------------------------------------------------------------------------------- at a place


def _existing(spec: VictimSpec, how: How) -> GivenVictim:
    """Return a classifier that exists: a model in a folder or on the hub, an importable function, or an endpoint."""
    if spec.origin == "model":
        return _model(spec.model_copy(update={"max_length": how.max_length or spec.max_length}), how)

    def opened(task: TaskSpec, backend: str) -> Any:
        from rbench.recipes.answering import open_answering

        return open_answering(spec, task)

    asks = None
    if spec.function is not None:
        from rbench.victims.function import imported

        asks = imported(spec.function, Path.cwd())
    return GivenVictim(spec.name, opened=opened, gradients=False, asks=asks)


def _model(spec: VictimSpec, how: How) -> GivenVictim:
    from rbench.victims.place import locate, located

    labels = labels_of(read_config(located(spec, how.models).where))
    named = tuple(spec.labels.get(label, spec.labels.get(str(i), label)) for i, label in enumerate(labels))

    def meaning(names: Sequence[str]) -> VictimSpec:
        said = {} if [*names] == [*labels] else dict(zip(labels, names, strict=True))
        return spec.model_copy(update={"labels": said})

    return GivenVictim(
        spec.name, named, locate=lambda task: locate(meaning(task.labels), task, how.models), given=meaning
    )


def _named(text: str, how: How) -> GivenVictim:
    """Return the victim behind a text: a folder that rbench saved, `module:function`, or a folder or hub id."""
    roots = [Path(text).expanduser(), *(root / text for root in (*how.models, PACKAGED))]
    saved = next(
        (root for root in roots if (root / "rbench.json").is_file() and (root / "head.safetensors").is_file()), None
    )
    if saved is not None:
        return _saved(saved)
    if (by_file := named_by_file(text)) is not None:
        raise SuiteError(f"victim: {by_file}")
    if FUNCTION.fullmatch(text) and not Path(text).exists():
        return _existing(chosen_victim({"function": text, **_of_function(how)}, how.registry), how)
    return _existing(chosen_victim(text, how.registry), how)


def _saved(where: Path) -> GivenVictim:
    """Return a victim that a run of rbench fine-tuned and saved."""
    try:
        about = json.loads((where / "rbench.json").read_text(encoding="utf-8"))
        labels = tuple(map(str, about["meta"].get("labels") or range(about["num_labels"])))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResourceError(f"{where} is not a classifier that rbench saved: its rbench.json cannot be read") from error
    return GivenVictim(where.name, labels, locate=lambda task: located(where))


# -------------------------------------------------------------------------------------------------------- in memory


def _of_function(how: How) -> dict[str, Any]:
    return {"scores": how.scores, "batch_size": how.batch_size}


def _function(victim: Any, function: Callable[[list[Any]], Any], name: str, how: How) -> GivenVictim:
    """Return a Python function as victim. Worker processes cannot ask it."""
    safe = victim_name({"function": name})
    spec = VictimSpec(name=safe, function=f"{type(victim).__module__}:{name}", version="given", **_of_function(how))

    def opened(task: TaskSpec, backend: str) -> Any:
        from rbench.recipes.answering import AnsweringVictim

        asked = AnsweringVictim(answers_of(function, spec, task, Path.cwd()))
        asked.check()
        return asked

    return GivenVictim(safe, opened=opened, gradients=False, asks=function)


def _is_wrapper(victim: Any) -> bool:
    """Return whether it is a ModelWrapper of TextAttack. TextAttack is not imported for this."""
    return any(
        base.__name__ == "ModelWrapper" and base.__module__.startswith("textattack") for base in type(victim).__mro__
    )


def _wraps_model(victim: Any) -> bool:
    """Return whether it is TextAttack's wrapper around a transformers classifier, which calls the model itself.

    It is taken apart, because it calls some models in ways in which they err: it gives DistilBERT token types, and pads
    with the tokenizer as it is. A subclass that calls the model in another way is a function.
    """
    calls = type(victim).__call__
    return (
        _is_wrapper(victim)
        and getattr(calls, "__qualname__", "") == "HuggingFaceModelWrapper.__call__"
        and type(victim.model).__name__.endswith(HEADED)
    )


def _as_textattack(wrapper: Any) -> Callable[[list[Any]], Any]:
    """Return a function that reads a ModelWrapper's outputs as TextAttack does: what does not sum to 1 is logits."""

    def function(texts: list[Any]) -> Any:
        outputs = wrapper(texts)
        outputs = outputs.detach().cpu().numpy() if hasattr(outputs, "detach") else outputs
        rows = np.asarray(outputs, dtype=np.float64)
        if rows.ndim != 2:
            raise PlanError(f"{type(wrapper).__name__} returned an array of shape {rows.shape} for {len(texts)} texts")
        sums = (abs(rows.sum(axis=1) - 1) < 1e-6).all() and (rows >= 0).all()
        return rows if sums else np.stack([softmax(row) for row in rows])

    return function


def _network(model: Any, tokenizer: Any, how: How) -> GivenVictim:
    """Return a transformers model for sequence classification, with its tokenizer, as victim."""
    config = model.config
    labels = getattr(config, "id2label", None) or {}
    if getattr(config, "problem_type", None) in ("regression", "multi_label_classification"):
        raise PlanError(f"{type(model).__name__} gives {config.problem_type}, and attacks need one class for each text")
    if HEADED not in type(model).__name__:
        raise PlanError(f"{type(model).__name__} has no head for classification; attacks need a ...{HEADED}")
    name = victim_name(str(getattr(config, "_name_or_path", "") or type(model).__name__))

    training = model.training

    def opened(task: TaskSpec, backend: str) -> Any:
        from rbench.recipes import Victim
        from rbench.victims.model import ExistingClassifier

        order = tuple(range(len(task.labels)))
        classifier = ExistingClassifier(_in_full(model), tokenizer, order, how.max_length).eval()
        try:
            classifier = classifier.checked(len(task.columns))
        except ResourceError as error:
            raise ResourceError(f"{name}: {error}") from error
        return Victim(classifier, name, device=str(classifier.device), backend=backend)

    named = tuple(str(labels[i]) for i in sorted(labels))
    return GivenVictim(name, named, opened=opened, restore=lambda: model.train(training))


def _in_full(model: Any) -> Any:
    """Return a model that computes in float32, as from a folder: a copy, where the given one has half precision.

    In half precision a text's answer depends on the batch, and by more than some words change it.
    """
    import torch

    half = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in model.parameters())
    return copy.deepcopy(model).float() if half and not getattr(model, "is_quantized", False) else model


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(str, names))


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
