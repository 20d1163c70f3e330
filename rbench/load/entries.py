"""Registry files -> specs: tasks, encoders with all below them, resource profiles, attacks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from rbench.errors import SuiteError
from rbench.load.attacks import Attacks
from rbench.load.check import check
from rbench.load.files import Files
from rbench.load.modules import Modules
from rbench.load.places import Located, Problems, Where, read
from rbench.load.registry import Registry, unknown
from rbench.spec import (
    CONTRAST,
    IN_DOMAIN,
    RESOURCE_KINDS,
    AttackSpec,
    ContrastSpec,
    EncoderSpec,
    LocalData,
    Named,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    Source,
    TaskSpec,
    TrainSpec,
    is_text_file,
)

Entry = TypeVar("Entry", bound=Named)

_ENCODER_FIELDS = ("pooling", "layers", "max_length")
"""What a suite may change of an encoder that is not ours to train."""
_STEPS_AND_EPOCHS = "steps and epochs exclude each other; take out one of them"

_LOADERS: dict[ResourceKind, tuple[tuple[str, ...], str | None]] = {
    "word_vectors": (("textattack-counterfitted", "mini"), "folder"),
    "synonyms": (("wordnet", "mini"), "folder"),
    "masked_lm": ((), "hub"),
    "sentence_encoder": (("use", "mini"), "sentence-transformers"),
    "pos_tagger": (("nltk", "mini"), None),
    "stopwords": (("nltk", "mini"), None),
}
"""The kinds of source (rbench.resources) that need no name, and the one that loads a folder or hub id by name."""


class Entries(Files):
    """What one suite names, loaded once each; everything wrong goes to `problems`.

    `place` is always where the name stands that is looked up. `own` are encoders by name that no file holds.
    """

    def __init__(self, registry: Registry, problems: Problems, own: Mapping[str, Located] | None = None) -> None:
        super().__init__(registry, problems)
        self.own = dict(own or {})
        self.modules = Modules(registry, problems)
        self._attacks = Attacks(registry, problems, self.modules)
        self.tasks: dict[str, TaskSpec] = {}
        self.encoders: dict[str, EncoderSpec] = {}
        self.attacks: dict[str, AttackSpec] = {}
        self.contrast: dict[str, ContrastSpec] = {}
        self.models: dict[str, dict[str, str]] = {}
        self.training_resources: dict[str, tuple[ResourceProfile, tuple[ResourceKind, ...]]] = {}

    def task(self, name: str, place: str) -> None:
        """Load a task into `tasks`."""
        path = self._path("tasks", name, place)
        if path is not None and self._first("task", name):
            located = self._named(path, name)
            spec = check(TaskSpec, located, self.problems) if located else None
            if spec is not None:
                self.tasks[name] = spec

    def contrast_set(self, name: str, place: str) -> ContrastSpec | None:
        """Load a contrast set into `contrast`, then its task; None where something is wrong with either."""
        path = self._path("contrast", name, place)
        if path is not None and self._first("contrast set", name):
            located = self._named(path, name)
            spec = check(ContrastSpec, located, self.problems) if located else None
            if spec is not None and located is not None:
                self.task(spec.task, located.at(("task",)))
                if (task := self.tasks.get(spec.task)) is not None and self._fits(spec, task, located):
                    self.contrast[name] = spec
        return self.contrast.get(name)

    def _fits(self, spec: ContrastSpec, task: TaskSpec, located: Located) -> bool:
        """Whether a contrast set has the columns of its task; if not, that is among the problems."""
        before = len(self.problems.lines)
        wanted = {*task.columns, "label"}
        for side in ("original", "perturbed"):
            given: dict[str, str] = getattr(spec, side)
            for missing in sorted(wanted - set(given)):
                message = f"`{side}` does not say which column is the task's `{missing}`"
                self.problems.add(located.at((side,)), message)
            for key in sorted(set(given) - wanted):
                self.problems.add(located.key_at((side, key)), unknown(f"column of {task.name}", key, wanted))
        for key in sorted(set(spec.shares) - set(task.columns)):
            self.problems.add(located.key_at(("shares", key)), unknown(f"column of {task.name}", key, task.columns))
        return len(self.problems.lines) == before

    def tasks_with_contrast(self) -> list[str]:
        """The names of tasks that name a contrast set; files with faults are passed over."""
        return self._tasks_where(lambda data: data.get("contrast") is not None)

    def corpus(self, name: str, place: str) -> None:
        """Load what an encoder is trained on into `tasks`: a task, or a file of texts, which needs no YAML file."""
        if is_text_file(name):
            self.tasks[name] = TaskSpec(
                name=name, kind="unlabelled", columns=("text",), local=LocalData(file=name), title="a file of texts"
            )
        else:
            self.task(name, place)

    def encoder(self, name: str, place: str, above: tuple[str, ...] = ()) -> None:
        """Load an encoder into `encoders`, then the registry encoder that is its base, and all that it trains with."""
        own = self.own.get(name)
        path = self._path("encoders", name, place) if own is None else None
        if name in above:
            self.problems.add(place, f"the bases go round in a circle: {' -> '.join([*above, name])}")
        elif (own is not None or path is not None) and self._first("encoder", name):
            located = own if path is None else self._named(path, name)
            spec = check(EncoderSpec, located, self.problems) if located else None
            if spec is None or located is None:
                return
            if spec.train is not None and None not in (spec.train.steps, spec.train.epochs):
                self.problems.add(located.key_at(("train", "epochs")), _STEPS_AND_EPOCHS)
            self._encoder(name, spec, located, above)

    def variant(self, name: str, options: Located, label: str, place: str) -> None:
        """Load the encoder `name` with a suite's options over its own into `encoders` under `label`.

        Options are those of its training objective, other keys of its `train`, or, for an encoder that is not ours to
        train, its pooling, layers and longest input.
        """
        path = self.registry.path("encoders", name) if name in self.registry.names("encoders") else None
        located = self._named(path, name) if path is not None else None
        own = self.encoders.get(name)
        if located is None or own is None:
            return  # which has been told
        located = located.put(("name",), Located(label, {(): place}))
        ways: dict[str, Where] = {key: (key,) for key in _ENCODER_FIELDS}
        if own.train is not None:
            ways = {key: ("train", key) for key in TrainSpec.model_fields if key not in ("objective", "options")}
            known = self.modules.options_of("objectives", own.train.objective)
            if known is None:
                return  # which has been told
            ways |= {key: ("train", "options", key) for key in known.model_fields}
        if ways.get("epochs") == ("train", "epochs") and "epochs" in options.data:
            if "steps" in options.data:
                self.problems.add(options.key_at(("epochs",)), _STEPS_AND_EPOCHS)
            # Steps go before epochs where an encoder has both: those of its file are not to outdo a suite's epochs.
            located = located.put(("train", "steps"), Located(None, {(): place}))
        for key in options.data:
            if key in ways:
                located = located.put(ways[key], options.sub(key), options.key_at((key,)))
            else:
                self.problems.add(options.key_at((key,)), unknown(f"option of {name}", key, ways))
        spec = check(EncoderSpec, located, self.problems)
        if spec is not None:
            self._encoder(label, spec, located, ())

    def _encoder(self, name: str, spec: EncoderSpec, located: Located, above: tuple[str, ...]) -> None:
        """Keep an encoder, and load what it stands on."""
        self.encoders[name] = spec
        # An encoder may be named like the folder or hub id that it loads: then its base is that, not itself.
        if spec.base is not None and spec.base != name and spec.base in self.registry.names("encoders"):
            self.encoder(spec.base, located.at(("base",)), (*above, name))
        if spec.train is not None:
            self._training(spec, spec.train, located, (*above, name))

    def _training(self, spec: EncoderSpec, train: TrainSpec, located: Located, above: tuple[str, ...]) -> None:
        """The objective's options, the corpus, what steps are selected by, and the further models that options name."""
        options = located.sub("train", "options") if "options" in located.data["train"] else Located({})
        place = located.at(("train", "objective"))
        made = self.modules.check("objectives", train.objective, place, options)
        if train.data != IN_DOMAIN:
            self.corpus(train.data, located.at(("train", "data")))
        for task in train.selecting:
            self.evaluation(task, located.at(("train", "select_by")), "task to select by")
        self._training_resources(spec.name, train, made, options, above)
        self.models[spec.name] = {}
        for option in getattr(made, "MODELS", ()):
            model = getattr(made, option)
            if model is None:
                continue
            self.models[spec.name][option] = model
            if model in self.registry.names("encoders"):
                place = located.at(("train", "options", option))
                self.encoder(model, place, above)
                self._whole(model, place)

    def _training_resources(
        self, name: str, train: TrainSpec, made: BaseModel | None, options: Located, above: tuple[str, ...]
    ) -> None:
        """What an objective that edits words asks: its `resources`, as far as its module says that it NEEDS them."""
        needs = self.modules.needs("objectives", train.objective)
        choice: ResourceChoice | None = getattr(made, "resources", None)
        if not needs or choice is None:
            return
        chosen = options.sub("resources") if "resources" in options.data else options
        profile = self.resources(choice, chosen, needs, above)
        if profile is not None:
            self.training_resources[name] = profile.only(needs), needs

    def _whole(self, name: str, place: str) -> None:
        """A model that serves with all of its layers cannot be an encoder that leaves some out as it is loaded."""
        spec = self.encoders.get(name)
        while spec is not None and spec.train is None:
            if spec.layers is not None:
                self.problems.add(place, f"encoder {name} keeps {spec.layers} layers; name one that keeps them all")
                return
            spec = self.encoders.get(spec.base or "") if spec.base != spec.name else None

    def evaluation(self, name: str, place: str, what: str = "evaluation") -> None:
        """Load an STS task, on whose scores encoders are evaluated; `what` it is called where there is none."""
        if name not in self.registry.names("tasks"):
            known = [*self._sts_tasks(), *([CONTRAST] if what == "evaluation" else [])]
            self.problems.add(place, unknown(what, name, known))
            return
        self.task(name, place)
        task = self.tasks.get(name)
        if task is not None and task.kind != "sts":
            valid = ", ".join(self._sts_tasks())
            self.problems.add(place, f"task {name} (its kind is {task.kind}) has no similarity scores; {valid} have")

    def _sts_tasks(self) -> list[str]:
        """The names of tasks that have scores; files with faults are passed over, they are told where they are used."""
        return self._tasks_where(lambda data: data.get("kind") == "sts")

    def _tasks_where(self, asked: Callable[[Mapping[str, Any]], bool]) -> list[str]:
        found = []
        for name in self.registry.names("tasks"):
            try:
                data = read(self.registry.path("tasks", name), Problems()).data
            except SuiteError:
                continue
            found += [name] if asked(data) else []
        return found

    def resources(
        self,
        choice: ResourceChoice,
        chosen: Located,
        needed: Collection[str] = RESOURCE_KINDS,
        above: tuple[str, ...] = (),
    ) -> ResourceProfile | None:
        """The profile with single resources replaced; an encoder of ours that serves as one that is `needed` is loaded.

        `chosen` is where the choice stands, `above` the encoders whose training asks for it.
        """
        path = self._path("resources", choice.profile, chosen.at(("profile",)))
        located = self._named(path, choice.profile) if path is not None else None
        profile = check(ResourceProfile, located, self.problems) if located else None
        if profile is None or located is None:
            return None
        replaced: dict[str, Source | None] = {
            kind: self._replacement(kind, name, chosen.at((kind,)))
            for kind in RESOURCE_KINDS
            if (name := getattr(choice, kind)) is not None
        }
        profile = profile.model_copy(update=replaced)
        for kind in RESOURCE_KINDS:
            source: Source | None = getattr(profile, kind)
            if kind in needed and source is not None and source.kind == "encoder" and source.name is not None:
                place = chosen.at((kind,)) if kind in replaced else located.at((kind, "name"))
                self.encoder(source.name, place, above)
        return profile

    def _replacement(self, kind: ResourceKind, name: str, place: str) -> Source | None:
        """What a suite means by one word: a loader that needs no name, an encoder of ours, a folder, a hub id."""
        alone, named = _LOADERS[kind]
        if name in alone:
            return Source(kind=name)
        if kind == "masked_lm" and name in self.registry.names("encoders"):
            located = self._named(self.registry.path("encoders", name), name)
            if located is not None and "train" in located.data:
                return Source(kind="encoder", name=name)
        if named is not None:
            return Source(kind=named, name=name)
        self.problems.add(place, unknown(f"source of {kind}", name, alone))
        return None

    def attack(self, name: str, options: Located, label: str, place: str) -> None:
        """Load an attack with its options into `attacks` under `label`."""
        spec = self._attacks.load(name, options, place)
        if spec is not None:
            self.attacks[label] = spec
