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

from rbench.config.entries import FUNCTION, chosen_victim, file_naming_hint
from rbench.config.registry import Registry, unknown_message
from rbench.encoders.locate import PACKAGED
from rbench.encoders.model_metadata import HEADED_ENDING
from rbench.errors import PlanError, RbenchError, SuiteError
from rbench.schema import Outcome, TaskSpec, VictimSpec, victim_name
from rbench.system.digests import FingerprintedPlace, locate_folder
from rbench.system.own_code import describe_error, failing_in
from rbench.tasks import Example
from rbench.victims.config import read_config, read_labels
from rbench.victims.function import wrap_function
from rbench.victims.scores import softmax

FORMS = (
    "a function from a list of texts to rows of probabilities, (model, tokenizer) or a pipeline of transformers, a "
    "ModelWrapper of TextAttack, a folder or hub id of a classifier, or a mapping like {'endpoint': {...}}"
)


@dataclass(frozen=True)
class QueryOptions:
    """How a victim is queried. The first two are for functions, `max_length` is for models."""

    scores: Literal["probabilities", "logits"] = "probabilities"
    batch_size: int = 64
    max_length: int | None = None
    models: tuple[Path, ...] = ()
    registry: Registry = field(default_factory=Registry)
    varying: bool = False
    """Whether a function or an endpoint may answer a text in several ways. Otherwise that ends the work."""

    def asked(self, spec: VictimSpec) -> VictimSpec:
        """Return a function or an endpoint as it is to be queried."""
        return spec.model_copy(update={"tolerance": 1.0}) if self.varying else spec


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
    locate: Callable[[TaskSpec], FingerprintedPlace] | None = None
    given: Callable[[Sequence[str]], VictimSpec] | None = None
    gradients: bool = True
    restore: Callable[[], object] = lambda: None
    """Leaves a victim in memory as it was given."""
    asks: Callable[[list[Any]], Any] | None = field(default=None, repr=False)
    """Of a function: itself."""

    def names(self, label_names: Sequence[str] | None, texts: Sequence[Any]) -> tuple[str, ...]:
        """Return the names of its labels, in the order of its outputs: `label_names`, or its own, or numbers.

        Args:
            label_names: the names that the user says.
            texts: examples, which a function is asked for, until it answers one, where nothing else tells how many
                labels it has.

        Raises PlanError where the names are too few, too many or not all different.
        """
        own_labels = self.labels or self._asked(texts, known=label_names is not None)
        names = own_labels if label_names is None else tuple(map(str, label_names))
        if own_labels and len(names) != len(own_labels):
            raise PlanError(
                f"label_names has {len(names)} names, and {self.name} has {len(own_labels)} labels: "
                f"{_list_names(own_labels)}"
            )
        if len({name.casefold() for name in names}) < max(2, len(names)):
            raise PlanError(
                f"{self.name} has the labels {_list_names(names)}, and attacks need two or more that differ. Say them "
                "in the order of its outputs: label_names=[...]"
            )
        return names

    def _asked(self, texts: Sequence[Any], known: bool) -> tuple[str, ...]:
        """Return the labels of the first answer. An exception concerns its text alone; if each of the texts raises one,
        there are no labels, which is an error unless they are `known`."""
        if self.asks is None:
            return ()
        for text in texts:
            try:
                return self._labels_of_row(text, self.asks([text]))
            except (RbenchError, KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                raised = error
        if known:
            return ()
        raise PlanError(
            f"{self.name} raised {describe_error(raised, Path.cwd())}, for the first text and those after it; mend it, "
            "or take texts that it can read"
        ) from raised

    def _labels_of_row(self, text: Any, rows: Any) -> tuple[str, ...]:
        from rbench.errors import AnswerError
        from rbench.victims.scores import read_labels_and_numbers, to_plain

        rows = to_plain(list(rows) if isinstance(rows, Iterator) else rows)
        if not isinstance(rows, list) or len(rows) != 1:
            raise PlanError(
                f"{self.name} must return a list, array or tensor with a row for each text; asked for one "
                f"text, it returned {type(rows).__name__ if not isinstance(rows, list) else len(rows)}"
            )
        try:
            names, numbers = read_labels_and_numbers(rows[0])
        except AnswerError as error:
            raise PlanError(f"{self.name}, asked for {text!r}: {error}") from error
        return tuple(names) if names is not None else tuple(map(str, range(len(numbers))))


def recognise_victim(victim: Any, query_options: QueryOptions) -> GivenVictim:
    """Return what is known of a victim before it is opened.

    Raises:
        PlanError: it is nothing that rbench can attack.
        SuiteError: it is a mapping or a text, and not well formed.
        ResourceError: it is text, and there is no such folder or model.
    """
    if isinstance(victim, GivenVictim):
        return victim
    if isinstance(victim, VictimSpec):
        return _existing_victim(victim, query_options)
    if isinstance(victim, Mapping):
        return _existing_victim(chosen_victim(victim, query_options.registry), query_options)
    if isinstance(victim, str | os.PathLike):
        return _victim_from_text(os.fspath(victim), query_options)
    # The order decides: wrappers, pipelines and models are callable as well, and would be taken for functions.
    if _wraps_model(victim):
        return _network_victim(victim.model, victim.tokenizer, query_options)
    if _is_wrapper(victim):
        return _function_victim(victim, _read_as_textattack(victim), type(victim).__name__, query_options)
    if hasattr(victim, "model") and hasattr(victim, "tokenizer") and hasattr(victim, "task"):
        if victim.task not in ("text-classification", "sentiment-analysis"):
            raise PlanError(
                f"a pipeline for {victim.task} is no classifier; make it with pipeline('text-classification')"
            )
        max_length = getattr(victim, "_preprocess_params", {}).get("max_length")
        query_options = replace(query_options, max_length=query_options.max_length or max_length)
        return _network_victim(victim.model, victim.tokenizer, query_options)
    if isinstance(victim, list | tuple) and len(victim) == 2 and hasattr(victim[0], "config"):
        return _network_victim(victim[0], victim[1], query_options)
    if hasattr(victim, "config") and not hasattr(victim, "tokenizer"):
        raise PlanError(f"{type(victim).__name__} is a model without its tokenizer; give both: (model, tokenizer)")
    if callable(victim):
        return _function_victim(victim, victim, getattr(victim, "__name__", type(victim).__name__), query_options)
    raise PlanError(f"a victim is {FORMS}, not {type(victim).__name__}")


# ------------------------------------------------------------------------------------------------------- at a place


def _existing_victim(spec: VictimSpec, query_options: QueryOptions) -> GivenVictim:
    """Return a classifier that exists: a model in a folder or on the hub, an importable function, or an endpoint."""
    if spec.origin == "model":
        return _model_victim(
            spec.model_copy(update={"max_length": query_options.max_length or spec.max_length}), query_options
        )

    spec = query_options.asked(spec)

    def opened(task: TaskSpec, backend: str) -> Any:
        from rbench.recipes.answering import open_answering

        return open_answering(spec, task)

    asks = None
    if spec.function is not None:
        from rbench.victims.function import import_function

        asks = import_function(spec.function, Path.cwd())
    return GivenVictim(spec.name, opened=opened, gradients=False, asks=asks)


def _model_victim(spec: VictimSpec, query_options: QueryOptions) -> GivenVictim:
    from rbench.victims.place import locate, locate_model

    labels = read_labels(read_config(locate_model(spec, query_options.models).where))
    label_names = tuple(spec.labels.get(label, spec.labels.get(str(i), label)) for i, label in enumerate(labels))

    def meaning(names: Sequence[str]) -> VictimSpec:
        renamed_labels = {} if [*names] == [*labels] else dict(zip(labels, names, strict=True))
        return spec.model_copy(update={"labels": renamed_labels})

    return GivenVictim(
        spec.name,
        label_names,
        locate=lambda task: locate(meaning(task.labels), task, query_options.models),
        given=meaning,
    )


def _victim_from_text(text: str, query_options: QueryOptions) -> GivenVictim:
    """Return the victim behind a text: a folder that rbench saved, `module:function`, or a folder or hub id."""
    roots = [Path(text).expanduser(), *(root / text for root in (*query_options.models, PACKAGED))]
    saved = next(
        (root for root in roots if (root / "rbench.json").is_file() and (root / "head.safetensors").is_file()), None
    )
    if saved is not None:
        return _saved_victim(saved)
    if (by_file := file_naming_hint(text)) is not None:
        raise SuiteError(f"victim: {by_file}")
    if text.startswith(("http://", "https://")):
        return _existing_victim(
            chosen_victim(
                {"endpoint": {"url": text}, "version": "given", "scores": query_options.scores}, query_options.registry
            ),
            query_options,
        )
    if FUNCTION.fullmatch(text) and not Path(text).exists():
        return _existing_victim(
            chosen_victim({"function": text, **_function_settings(query_options)}, query_options.registry),
            query_options,
        )
    return _existing_victim(chosen_victim(text, query_options.registry), query_options)


def _saved_victim(where: Path) -> GivenVictim:
    """Return a victim that a run of rbench fine-tuned and saved."""
    with failing_in(where / "rbench.json"):
        about = json.loads((where / "rbench.json").read_text(encoding="utf-8"))
        labels = tuple(map(str, about["meta"].get("labels") or range(about["num_labels"])))
    return GivenVictim(where.name, labels, locate=lambda task: locate_folder(where))


# -------------------------------------------------------------------------------------------------------- in memory


def _function_settings(query_options: QueryOptions) -> dict[str, Any]:
    return {"scores": query_options.scores, "batch_size": query_options.batch_size}


def _function_victim(
    victim: Any, function: Callable[[list[Any]], Any], name: str, query_options: QueryOptions
) -> GivenVictim:
    """Return a Python function as victim. Worker processes cannot ask it."""
    safe = victim_name({"function": name})
    spec = query_options.asked(
        VictimSpec(
            name=safe,
            function=f"{type(victim).__module__}:{name}",
            version="given",
            **_function_settings(query_options),
        )
    )

    def opened(task: TaskSpec, backend: str) -> Any:
        from rbench.recipes.answering import AnsweringVictim

        answering = AnsweringVictim(wrap_function(function, spec, task, Path.cwd()))
        answering.check()
        return answering

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
        and type(victim.model).__name__.endswith(HEADED_ENDING)
    )


def _read_as_textattack(wrapper: Any) -> Callable[[list[Any]], Any]:
    """Return a function that reads a ModelWrapper's outputs as TextAttack does: what does not sum to 1 is logits."""

    def function(texts: list[Any]) -> Any:
        outputs = wrapper(texts)
        outputs = outputs.detach().cpu().numpy() if hasattr(outputs, "detach") else outputs
        rows = np.asarray(outputs, dtype=np.float64)
        are_probabilities = (abs(rows.sum(axis=1) - 1) < 1e-6).all() and (rows >= 0).all()
        return rows if are_probabilities else np.stack([softmax(row) for row in rows])

    return function


def _network_victim(model: Any, tokenizer: Any, query_options: QueryOptions) -> GivenVictim:
    """Return a transformers model for sequence classification, with its tokenizer, as victim."""
    config = model.config
    labels = getattr(config, "id2label", None) or {}
    # Their outputs have the shape of class scores: an attack would run on them, and mean nothing.
    if getattr(config, "problem_type", None) in ("regression", "multi_label_classification"):
        raise PlanError(f"{type(model).__name__} gives {config.problem_type}, and attacks need one class for each text")
    if HEADED_ENDING not in type(model).__name__:
        raise PlanError(f"{type(model).__name__} has no head for classification; attacks need a ...{HEADED_ENDING}")
    name = victim_name(str(getattr(config, "_name_or_path", "") or type(model).__name__))

    training = model.training

    def opened(task: TaskSpec, backend: str) -> Any:
        from rbench.recipes import Victim
        from rbench.victims.model import ExistingClassifier

        order = tuple(range(len(task.labels)))
        classifier = ExistingClassifier(_as_float32(model), tokenizer, order, query_options.max_length).eval()
        classifier = classifier.with_safe_batches(len(task.columns))
        return Victim(classifier, name, device=str(classifier.device), backend=backend)

    label_names = tuple(str(labels[i]) for i in sorted(labels))
    return GivenVictim(name, label_names, opened=opened, restore=lambda: model.train(training))


def _as_float32(model: Any) -> Any:
    """Return a model that computes in float32, as from a folder: a copy, where the given one has half precision.

    In half precision a text's answer depends on the batch, and by more than some words change it.
    """
    import torch

    half = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in model.parameters())
    return copy.deepcopy(model).float() if half and not getattr(model, "is_quantized", False) else model


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(map(str, names))


TASK_NAME = "texts"
"""The name of the task that such texts make."""
MAX_PROBED_TEXTS = 8
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
        rows = map(_replace_surrogates, self.rows[:MAX_PROBED_TEXTS])
        return [row[0] if len(self.columns) == 1 else row for row in rows]

    def task(self, names: Sequence[str]) -> TaskSpec:
        """Return the task of these texts, whose classes have `names`.

        With the columns premise and hypothesis it is of the kind `nli`, in which attacks leave the premise alone.
        """
        pair = "nli" if self.columns == ("premise", "hypothesis") else "pair"
        kind = "single" if len(self.columns) == 1 else pair
        return TaskSpec.model_validate(
            {"name": TASK_NAME, "title": "texts", "kind": kind, "columns": self.columns, "labels": tuple(names)}
        )

    def examples(self, names: Sequence[str]) -> list[Example]:
        """Return the examples, whose ids are the positions of the texts from 0.

        Raises PlanError where a label is none of `names`, and none of their numbers, which begin at 0.
        """
        ids = {name.casefold(): i for i, name in enumerate(names)}
        examples = []
        for i, (row, label) in enumerate(zip(self.rows, self.labels, strict=True)):
            number = ids.get(label.casefold()) if isinstance(label, str) else label
            if not isinstance(number, int) or not 0 <= number < len(names):
                raise PlanError(
                    f"labels[{i}]: {unknown_message('label', str(label), names)}. If the victim's outputs mean "
                    "something else, say what, in their order: label_names=[...]"
                )
            examples.append(Example(str(i), row, number))
        return examples


def read_texts(texts: Iterable[Any], labels: Iterable[Any], columns: Sequence[str] | None) -> GivenTexts:
    """Read texts (strings, tuples of strings, or mappings by column) and labels (whole numbers, or names).

    Raises PlanError where there are none, their numbers differ, or one is of another type.
    """
    text_list, label_list = list(texts), list(labels)
    if not text_list or len(text_list) != len(label_list):
        raise PlanError(
            f"expected texts and a label for each; there are {len(text_list)} texts and {len(label_list)} labels"
        )
    if columns is None:
        columns = _name_columns(text_list[0])
    rows = tuple(_read_row(i, text, tuple(columns)) for i, text in enumerate(text_list))
    return GivenTexts(tuple(columns), rows, tuple(_read_label(label) for label in label_list))


def outcome_if_unreadable(example: Example) -> Outcome | None:
    """Return the outcome of a text that is not valid Unicode, so that no victim can read it; None for other texts.

    Such texts come from files that were read with errors="surrogateescape", and from halves of emojis in JSON. The
    outcome has U+FFFD in the places of the half characters, so that it can be printed and written.
    """
    surrogate = next(filter(None, map(_SURROGATE.search, example.texts)), None)
    if surrogate is None:
        return None
    return Outcome(
        example_id=example.id,
        status="errored",
        original=_replace_surrogates(example.texts),
        label=example.label,
        error=f"UnicodeError: texts[{example.id}] has half a character (a lone surrogate) at position "
        f'{surrogate.start()}, which is not valid Unicode. Read its file with errors="replace", or leave it out.',
    )


def _replace_surrogates(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(_SURROGATE.sub("\ufffd", text) for text in texts)


def _name_columns(first: Any) -> tuple[str, ...]:
    """Return the names of columns, from the first text: those of a mapping, else `text`, or `text_1`, `text_2`."""
    if isinstance(first, Mapping):
        return tuple(map(str, first))
    if isinstance(first, str) or not isinstance(first, list | tuple) or len(first) == 1:
        return ("text",)
    return tuple(f"text_{i + 1}" for i in range(len(first)))


def _read_row(i: int, text: Any, columns: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(text, Mapping):
        text = [text.get(column) for column in columns]
    parts = tuple(text) if isinstance(text, list | tuple) else (text,)
    if len(parts) != len(columns) or not all(isinstance(part, str) for part in parts):
        raise PlanError(f"texts[{i}]: expected {len(columns)} of text ({', '.join(columns)}), found {text!r:.80}")
    return parts


def _read_label(label: Any) -> int | str:
    if hasattr(label, "item") and getattr(label, "ndim", None) == 0:  # numbers of numpy and torch
        label = label.item()
    if isinstance(label, float) and label.is_integer():  # a column of pandas with gaps elsewhere
        label = int(label)
    if isinstance(label, bool):
        label = int(label)
    return label  # type: ignore[no-any-return]
