"""Loads encoders with everything they depend on: bases, corpora, and the models and resources of their training."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from rbench.config.check import check
from rbench.config.code import Modules
from rbench.config.files import Files
from rbench.config.overrides import Chosen
from rbench.config.positions import Positioned, Where
from rbench.config.registry import unknown
from rbench.config.tasks import Tasks
from rbench.config.unlisted import absolute, is_model
from rbench.errors import SuiteError
from rbench.schema import (
    IN_DOMAIN,
    RESOURCE_KINDS,
    EncoderSpec,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    Source,
    TrainSpec,
    Variants,
    bases,
)
from rbench.schema.unlisted import is_path

_CHANGEABLE = ("pooling", "layers", "max_length", "head")
"""The fields that a suite may change of an encoder without `train`."""
_FIXED = frozenset(
    {"name", "base", "architecture", "tokenizer", "word_vectors", "train", "trust_remote_code", "unlisted"}
)
"""The fields of an encoder without a file that a suite may not set, besides those that change nothing."""
_OTHERWISE = "A folder is written ./NAME or with its path, a model of the hub OWNER/NAME."
_NOT_BY_TASK = frozenset({"data", "by_task", "select_by", "select_split", "resources", "seed"})
"""What a training cannot have by task: what is loaded for all tasks, and what names the training."""
_STEPS_AND_EPOCHS = "steps and epochs exclude each other; take out one of them"


LOADERS: dict[ResourceKind, tuple[tuple[str, ...], str | None]] = {
    "word_vectors": (("textattack-counterfitted", "mini"), "folder"),
    "synonyms": (("wordnet", "mini"), "folder"),
    "masked_lm": ((), "hub"),
    "sentence_encoder": (("use", "mini"), "sentence-transformers"),
    "pos_tagger": (("nltk", "mini"), None),
    "stopwords": (("nltk", "mini"), None),
}
"""By resource kind: the source kinds (rbench.words.resources) that need no name, and the one for a folder or hub id."""


def _profile(
    choice: ResourceChoice, chosen: Positioned, files: Files
) -> tuple[ResourceProfile, dict[ResourceKind, str]] | None:
    """Return the profile with the choice's single resources put in, and the place where each of its sources stands.

    Return None where something is wrong.

    `chosen` holds the places of the choice.
    """
    if files.path("resources", choice.profile, chosen.at(("profile",))) is None:
        return None
    located = files.named("resources", choice.profile)
    profile = check(ResourceProfile, located, files.problems) if located else None
    if profile is None or located is None:
        return None
    places = {kind: located.at((kind, "name")) for kind in RESOURCE_KINDS}
    replaced: dict[str, Source | None] = {}
    for kind in RESOURCE_KINDS:
        if (name := getattr(choice, kind)) is not None:
            places[kind] = chosen.at((kind,))
            replaced[kind] = _source(kind, name, places[kind], files)
    return profile.model_copy(update=replaced), places


def _source(kind: ResourceKind, name: str, place: str, files: Files) -> Source | None:
    """Return the source that a suite's `name` means.

    It is a source kind that needs no name, a registry encoder with `train`, a folder or a hub id.
    """
    alone, named = LOADERS[kind]
    if name in alone:
        return Source(kind=name)
    if kind == "masked_lm" and name in files.registry.names("encoders"):
        located = files.named("encoders", name)
        if located is not None and "train" in located.data:
            return Source(kind="encoder", name=name)
    if named is not None:
        return Source(kind=named, name=name)
    files.problems.add(place, unknown(f"source of {kind}", name, alone))
    return None


class Encoders:
    """Loads encoders into `found`, by label. `place` is always where the name stands.

    `own` holds encoders by name that have no file. `models` holds the further models that an encoder's objective
    names, by encoder and option. `training_resources` holds, by encoder, the resource profile that its objective uses
    and the kinds that it needs.
    """

    def __init__(self, files: Files, modules: Modules, tasks: Tasks, own: Mapping[str, Positioned]) -> None:
        self.files, self.modules, self.tasks, self.own = files, modules, tasks, own
        self.found: dict[str, EncoderSpec] = {}
        self.models: dict[str, dict[str, str]] = {}
        self.training_resources: dict[str, tuple[ResourceProfile, tuple[ResourceKind, ...]]] = {}

    def choose(self, choice: Chosen) -> None:
        """Load an encoder as a suite names it, also under its label if the suite sets options."""
        self.load(choice.name, choice.place)
        if choice.options.data:
            self.variant(choice.name, choice.options, choice.label, choice.place)

    def load(self, name: str, place: str, above: tuple[str, ...] = ()) -> None:
        """Load an encoder, the registry encoder that is its base, and everything that it trains with.

        `above` are the encoders that depend on it.
        """
        if name not in self.own:
            try:
                self.files.registry.path("encoders", name)
            except SuiteError as error:
                self.files.problems.add(place, f"{error}{'' if str(error).endswith('?') else '.'} {_OTHERWISE}")
                return
        if name in above:
            self.files.problems.add(place, f"the bases go round in a circle: {' -> '.join([*above, name])}")
        elif self.files.first("encoders", name):
            located = self._content(name)
            spec = check(EncoderSpec, located, self.files.problems) if located else None
            if spec is None or located is None:
                return
            if spec.train is not None and None not in (spec.train.steps, spec.train.epochs):
                self.files.problems.add(located.key_at(("train", "epochs")), _STEPS_AND_EPOCHS)
            self._keep(name, spec, located, above)

    def variant(self, name: str, options: Positioned, label: str, place: str) -> None:
        """Load the encoder `name` under `label`, with a suite's options in place of its own.

        For an encoder with `train`, options are those of its objective and the other keys of `train`. For any other
        encoder, they are `pooling`, `layers`, `max_length` and `head`; for one without a file, whatever its file could
        say.
        """
        own = self.found.get(name)
        located = self._content(name) if own is not None else None
        ways = self._ways(own) if own is not None else None
        if located is None or ways is None:
            return  # the problem was added when `name` was loaded
        located = located.put(("name",), Positioned(label, place))
        if ways.get("epochs") == ("train", "epochs") and "epochs" in options.data:
            if "steps" in options.data:
                self.files.problems.add(options.key_at(("epochs",)), _STEPS_AND_EPOCHS)
            # Where an encoder has both, steps win over epochs. So the file's steps are removed for a suite's epochs.
            located = located.put(("train", "steps"), Positioned(None, place))
        for key in options.data:
            if key in ways:
                located = located.put(ways[key], options.sub(key), options.key_at((key,)))
            else:
                self.files.problems.add(options.key_at((key,)), unknown(f"option of {name}", key, ways))
        if own is not None and own.train is not None and "by_task" not in options.data:
            for task in own.train.by_task:  # what a suite says holds for every task
                where: Where = ("train", "by_task", task)
                located = located.put(where, located.sub(*where).only({*own.train.by_task[task]} - {*options.data}))
        spec = check(EncoderSpec, located, self.files.problems)
        if spec is not None:
            self._keep(label, spec, located, ())

    def _content(self, name: str) -> Positioned | None:
        """Return what the file of an encoder says, or what stands for it where it has none; None where it is wrong.

        A path such as `./mine` is relative to the folder of the file.
        """
        if name in self.own:
            return self.own[name]
        located = self.files.named("encoders", name)
        if located is not None and "unlisted" in located.data:
            self.files.problems.add(located.key_at(("unlisted",)), "`unlisted` is not for files; remove it")
        folder = self.files.registry.path("encoders", name).parent

        def spelled_out(where: Where, text: str, is_key: bool) -> str:
            if is_key or not is_path(text):
                return text
            path = absolute(text, folder)
            option = where[:2] == ("train", "options") and is_model(path)
            return str(path) if option or where in (("base",), ("tokenizer",)) else text

        return located.mapped(spelled_out) if located is not None else None

    def drawn(self, spec: EncoderSpec) -> bool:
        """Return whether the seed of this encoder's training decides its weights. That of whitening decides nothing."""
        if spec.train is None:
            return False
        options = self.modules.options_of("objectives", spec.train.objective)
        return spec.architecture is not None or bool(getattr(options, "DRAWS", True))

    def copy(self, spec: EncoderSpec, label: str, changes: Mapping[str, Any]) -> None:
        """Keep a loaded encoder a second time under `label`, with `changes` in it."""
        self.found[label] = spec.model_copy(update={"name": label, **changes})
        if spec.name in self.models:
            self.models[label] = self.models[spec.name]
        if spec.name in self.training_resources:
            self.training_resources[label] = self.training_resources[spec.name]

    def resources(
        self,
        choice: ResourceChoice,
        chosen: Positioned,
        needed: Collection[str] = RESOURCE_KINDS,
        above: tuple[str, ...] = (),
    ) -> ResourceProfile | None:
        """Load a resource profile, with the choice's single resources put in. Return None where it is wrong.

        Load also each registry encoder that serves as a resource of a `needed` kind. `chosen` holds the places of the
        choice. `above` are the encoders whose training uses the profile.
        """
        found = _profile(choice, chosen, self.files)
        if found is None:
            return None
        profile, places = found
        for kind, source in profile.sources.items():
            if kind in needed and source.kind == "encoder" and source.name is not None:
                self.load(source.name, places[kind], above)
        return profile

    def _ways(self, spec: EncoderSpec) -> dict[str, Where] | None:
        """Map each option of a variant to its place in an encoder's file; None where its objective cannot be opened."""
        if spec.unlisted:
            return {key: (key,) for key in EncoderSpec.model_fields if key not in _FIXED | EncoderSpec.COSMETIC}
        if spec.train is None:
            return {key: (key,) for key in _CHANGEABLE}
        known = self.modules.options_of("objectives", spec.train.objective)
        if known is None:
            return None
        training = {key: ("train", key) for key in TrainSpec.model_fields if key not in ("objective", "options")}
        return {**training, **{key: ("train", "options", key) for key in known.model_fields}}

    def _keep(self, name: str, spec: EncoderSpec, located: Positioned, above: tuple[str, ...]) -> None:
        """Keep an encoder, and load what it depends on."""
        self.found[name] = spec
        # An encoder may have the name of the folder or hub id that it loads. Then its base is that, not itself.
        if spec.base is not None and spec.base != name and spec.base in self.files.registry.names("encoders"):
            self.load(spec.base, located.at(("base",)), (*above, name))
            if spec.train is not None and self._untrained(spec.base):
                message = f"{spec.base} keeps random weights; to train from such, write its `architecture` here"
                self.files.problems.add(located.at(("base",)), message)
        if (reader := spec.tokenizer) is not None and reader in self.files.registry.names("encoders"):
            place = located.at(("tokenizer",))
            self.load(reader, place, (*above, name))
            chain = bases(self.found[reader], self.found) if reader in self.found else ()
            if self._untrained(reader) or any(below.word_vectors for below in chain):
                message = (
                    f"{reader} has no tokenizer of its own; name an encoder that was trained, a folder or a hub id"
                )
                self.files.problems.add(place, message)
        if spec.train is not None:
            self._training(spec, spec.train, located, (*above, name))

    def _training(self, spec: EncoderSpec, train: TrainSpec, located: Positioned, above: tuple[str, ...]) -> None:
        """Check the objective's options. Load the corpus, the tasks to select steps by, and the models of options."""
        options = located.sub("train", "options") if "options" in located.data["train"] else Positioned({})
        place = located.at(("train", "objective"))
        made = self.modules.check("objectives", train.objective, place, options)
        if isinstance(made, Variants):
            # A key and a table say which variant was trained, also where the file leaves it at the default.
            said = train.model_copy(update={"options": {"variant": made.variant, **train.options}})
            changes = {"train": said, "variant_source": made.variant_source}
            self.found[spec.name] = spec.model_copy(update=changes)
        if train.data != IN_DOMAIN:
            self.tasks.corpus(train.data, located.at(("train", "data")))
        if train.by_task and located.data.get("train", {}).get("by_task"):
            self._by_task(spec, train, located)
        for task in train.selecting:
            self.tasks.scored(task, located.at(("train", "select_by")), "task to select by")
        needs = self.modules.needs("objectives", train.objective, made)
        choice: ResourceChoice | None = getattr(made, "resources", None)
        if needs and choice is not None:  # of an objective that edits words: those kinds that its module needs
            chosen = options.sub("resources") if "resources" in options.data else options
            profile = self.resources(choice, chosen, needs, above)
            if profile is not None:
                self.training_resources[spec.name] = profile.only(needs), needs
        self.models[spec.name] = {}
        for option in getattr(made, "MODELS", ()):
            model = getattr(made, option)
            if model is None:
                continue
            self.models[spec.name][option] = model
            if model in self.files.registry.names("encoders"):
                place = located.at(("train", "options", option))
                self.load(model, place, above)
                self._whole(model, place)

    def _by_task(self, spec: EncoderSpec, train: TrainSpec, located: Positioned) -> None:
        """Check the settings that a training has by task: that they are options, and that they fit the others."""
        models = getattr(self.modules.options_of("objectives", train.objective), "MODELS", ())
        ways = {key: way for key, way in (self._ways(spec) or {}).items() if key not in _NOT_BY_TASK | {*models}}
        for task in train.by_task:
            settings = located.sub("train", "by_task", task)
            none = Positioned({}, located.at(("train",)))
            whole = located.put(("train", "by_task"), none)
            whole = whole if "options" in located.data["train"] else whole.put(("train", "options"), none)
            for key in settings.data:
                if key in ways:
                    whole = whole.put(ways[key], settings.sub(key), settings.key_at((key,)))
                else:
                    self.files.problems.add(settings.key_at((key,)), unknown("setting by task", key, ways))
            if check(EncoderSpec, whole, self.files.problems) is not None:
                place = located.at(("train", "objective"))
                self.modules.check("objectives", train.objective, place, whole.sub("train", "options"))

    def _untrained(self, name: str) -> bool:
        """Return whether an encoder has the random weights of an architecture that no job trains."""
        return name in self.found and any(spec.random_weights for spec in bases(self.found[name], self.found))

    def _whole(self, name: str, place: str) -> None:
        """Add a problem where an encoder drops layers as it is loaded, or keeps random weights, but its user needs all
        layers of a trained network."""
        if name not in self.found:
            return  # the problem was added when `name` was loaded
        if self._untrained(name):
            self.files.problems.add(place, f"encoder {name} keeps random weights; name one that was trained")
            return
        for spec in bases(self.found[name], self.found):
            if spec.train is not None:
                return
            if spec.layers is not None:
                message = f"encoder {name} keeps {spec.layers} layers; name one that keeps them all"
                self.files.problems.add(place, message)
                return
