"""Loads encoders with everything they depend on: bases, corpora, and the models and resources of their training.

In a suite a folder or a hub id may stand wherever the name of an encoder may stand (`UnlistedEncoders`). Such a text is
replaced by the label that tables show, and an encoder of that label is made whose base is the folder or hub id. What a
folder's own files say of the encoder is read when the run is planned (`rbench.plan.model_metadata`).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from rbench.config.check import validate
from rbench.config.code import ModuleLoader
from rbench.config.files import RegistryFiles
from rbench.config.overrides import PlacedChoice, iter_items
from rbench.config.positions import DataPath, PositionedData, Problems, as_list, read_yaml, shown_path
from rbench.config.registry import NAME, Registry, unknown_message
from rbench.config.tasks import TaskLoader
from rbench.errors import SuiteError
from rbench.schema import (
    IN_DOMAIN,
    RESOURCE_KINDS,
    EncoderSpec,
    ResourceChoice,
    ResourceKind,
    ResourceSet,
    ResourceSource,
    TrainSpec,
    Variants,
    iter_bases,
)
from rbench.schema.common import EmbeddingsEndpoint
from rbench.schema.unlisted import HUB_ID, is_path, labels

_FIXED = frozenset(
    {
        *("name", "base", "architecture", "tokenizer", "word_vectors", "endpoint", "train"),
        *("trust_remote_code", "unlisted"),
    }
)
"""The fields of an encoder without `train` that a suite may not set, besides those that change nothing."""
_HOW_TO_WRITE = "A folder is written ./NAME or with its path, a model of the hub OWNER/NAME."
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


def _load_resource_set(
    choice: ResourceChoice, chosen: PositionedData, files: RegistryFiles
) -> tuple[ResourceSet, dict[ResourceKind, str]] | None:
    """Return the resource set with the choice's single resources put in, and the place of each of its sources.

    Return None where something is wrong.

    `chosen` holds the places of the choice.
    """
    if files.path("resources", choice.set, chosen.at(("set",))) is None:
        return None
    located = files.named("resources", choice.set)
    resource_set = validate(ResourceSet, located, files.problems) if located else None
    if resource_set is None or located is None:
        return None
    places = {kind: located.at((kind, "name")) for kind in RESOURCE_KINDS}
    replaced: dict[str, ResourceSource | None] = {}
    for kind in RESOURCE_KINDS:
        if (name := getattr(choice, kind)) is not None:
            places[kind] = chosen.at((kind,))
            replaced[kind] = _find_source(kind, name, places[kind], files)
    return resource_set.model_copy(update=replaced), places


def _find_source(kind: ResourceKind, name: str, place: str, files: RegistryFiles) -> ResourceSource | None:
    """Return the source that a suite's `name` means.

    It is a source kind that needs no name, a registry encoder with `train`, a folder or a hub id.
    """
    alone, named = LOADERS[kind]
    if name in alone:
        return ResourceSource(kind=name)
    if kind == "masked_lm" and name in files.registry.names("encoders"):
        located = files.named("encoders", name)
        if located is not None and "train" in located.data:
            return ResourceSource(kind="encoder", name=name)
    if named is not None:
        return ResourceSource(kind=named, name=name)
    files.problems.add(place, unknown_message(f"source of {kind}", name, alone))
    return None


class EncoderLoader:
    """Loads encoders into `found`, by label. `place` is always where the name stands.

    `own` holds encoders by name that have no file. `models` holds the further models that an encoder's objective
    names, by encoder and option. `training_resources` holds, by encoder, the resource set that its objective uses
    and the kinds that it needs.
    """

    def __init__(
        self, files: RegistryFiles, modules: ModuleLoader, tasks: TaskLoader, own: Mapping[str, PositionedData]
    ) -> None:
        self.files, self.modules, self.tasks, self.own = files, modules, tasks, own
        self.found: dict[str, EncoderSpec] = {}
        self.models: dict[str, dict[str, str]] = {}
        self.training_resources: dict[str, tuple[ResourceSet, tuple[ResourceKind, ...]]] = {}

    def choose(self, choice: PlacedChoice) -> None:
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
                self.files.problems.add(place, f"{error}{'' if str(error).endswith('?') else '.'} {_HOW_TO_WRITE}")
                return
        if name in above:
            self.files.problems.add(place, f"the bases go round in a circle: {' -> '.join([*above, name])}")
        elif self.files.first("encoders", name):
            located = self._content(name)
            spec = validate(EncoderSpec, located, self.files.problems) if located else None
            if spec is None or located is None:
                return
            if spec.train is not None and None not in (spec.train.steps, spec.train.epochs):
                self.files.problems.add(located.key_at(("train", "epochs")), _STEPS_AND_EPOCHS)
            self._keep(name, spec, located, above)

    def variant(self, name: str, options: PositionedData, label: str, place: str) -> None:
        """Load the encoder `name` under `label`, with a suite's options in place of its own.

        For an encoder with `train`, options are those of its objective and the other keys of `train`; for one behind an
        endpoint, how it is asked and its `dimensions` and `version`; for any other encoder, whatever its file could say
        of how texts become vectors.
        """
        base_spec = self.found.get(name)
        located = self._content(name) if base_spec is not None else None
        places = self._option_places(base_spec) if base_spec is not None else None
        if located is None or places is None:
            return  # the problem was added when `name` was loaded
        located = located.put(("name",), PositionedData(label, place))
        if places.get("epochs") == ("train", "epochs") and "epochs" in options.data:
            if "steps" in options.data:
                self.files.problems.add(options.key_at(("epochs",)), _STEPS_AND_EPOCHS)
            # Where an encoder has both, steps win over epochs. So the file's steps are removed for a suite's epochs.
            located = located.put(("train", "steps"), PositionedData(None, place))
        for key in options.data:
            if key in places:
                located = located.put(places[key], options.sub(key), options.key_at((key,)))
            else:
                self.files.problems.add(options.key_at((key,)), unknown_message(f"option of {name}", key, places))
        if base_spec is not None and base_spec.train is not None and "by_task" not in options.data:
            for task in base_spec.train.by_task:  # what a suite says holds for every task
                where: DataPath = ("train", "by_task", task)
                located = located.put(
                    where, located.sub(*where).only({*base_spec.train.by_task[task]} - {*options.data})
                )
        spec = validate(EncoderSpec, located, self.files.problems)
        if spec is not None:
            self._keep(label, spec, located, ())

    def _content(self, name: str) -> PositionedData | None:
        """Return what the file of an encoder says, or what stands for it where it has none; None where it is wrong.

        A path such as `./mine` is relative to the folder of the file.
        """
        if name in self.own:
            return self.own[name]
        located = self.files.named("encoders", name)
        if located is not None and "unlisted" in located.data:
            self.files.problems.add(located.key_at(("unlisted",)), "`unlisted` is not for files; remove it")
        folder = self.files.registry.path("encoders", name).parent

        def spelled_out(where: DataPath, text: str, is_key: bool) -> str:
            if is_key or not is_path(text):
                return text
            path = absolute_path(text, folder)
            option = where[:2] == ("train", "options") and is_model(path)
            return str(path) if option or where in (("base",), ("tokenizer",)) else text

        return located.mapped(spelled_out) if located is not None else None

    def drawn(self, spec: EncoderSpec) -> bool:
        """Return whether the seed of this encoder's training decides its weights. That of whitening decides nothing."""
        if spec.train is None:
            return False
        objective = self.modules.opened("objectives", spec.train.objective)
        return spec.architecture is not None or objective is None or bool(objective.draws)

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
        chosen: PositionedData,
        needed: Collection[str] = RESOURCE_KINDS,
        above: tuple[str, ...] = (),
    ) -> ResourceSet | None:
        """Load a resource set, with the choice's single resources put in. Return None where it is wrong.

        Load also each registry encoder that serves as a resource of a `needed` kind. `chosen` holds the places of the
        choice. `above` are the encoders whose training uses the set.
        """
        loaded = _load_resource_set(choice, chosen, self.files)
        if loaded is None:
            return None
        resource_set, places = loaded
        for kind, source in resource_set.sources.items():
            if kind in needed and source.kind == "encoder" and source.name is not None:
                self.load(source.name, places[kind], above)
        return resource_set

    def _option_places(self, spec: EncoderSpec) -> dict[str, DataPath] | None:
        """Map each option of a variant to its place in an encoder's file; None where its objective cannot be opened."""
        if spec.endpoint is not None:
            return {
                key: ("endpoint", key)
                for key in EmbeddingsEndpoint.model_fields
                if key not in ("url", "headers", "key")
            }
        if spec.train is None:
            return {key: (key,) for key in EncoderSpec.model_fields if key not in _FIXED | EncoderSpec.COSMETIC}
        known = self.modules.options_of("objectives", spec.train.objective)
        if known is None:
            return None
        training = {key: ("train", key) for key in TrainSpec.model_fields if key not in ("objective", "options")}
        return {**training, **{key: ("train", "options", key) for key in known.model_fields}}

    def _keep(self, name: str, spec: EncoderSpec, located: PositionedData, above: tuple[str, ...]) -> None:
        """Keep an encoder, and load what it depends on."""
        self.found[name] = spec
        # An encoder may have the name of the folder or hub id that it loads. Then its base is that, not itself.
        if spec.base is not None and spec.base != name and spec.base in self.files.registry.names("encoders"):
            self.load(spec.base, located.at(("base",)), (*above, name))
            self._check_not_remote(spec.base, located.at(("base",)), "nothing can be made of it")
            if spec.train is not None and self._is_untrained(spec.base):
                message = f"{spec.base} keeps random weights; to train from such, write its `architecture` here"
                self.files.problems.add(located.at(("base",)), message)
        if (reader := spec.tokenizer) is not None and reader in self.files.registry.names("encoders"):
            place = located.at(("tokenizer",))
            self.load(reader, place, (*above, name))
            chain = iter_bases(self.found[reader], self.found) if reader in self.found else ()
            if self._is_untrained(reader) or any(below.word_vectors for below in chain):
                message = (
                    f"{reader} has no tokenizer of its own; name an encoder that was trained, a folder or a hub id"
                )
                self.files.problems.add(place, message)
        if spec.train is not None:
            self._load_training(spec, spec.train, located, (*above, name))

    def _load_training(
        self, spec: EncoderSpec, train: TrainSpec, located: PositionedData, above: tuple[str, ...]
    ) -> None:
        """Check the objective's options. Load the corpus, the tasks to select steps by, and the models of options."""
        options = located.sub("train", "options") if "options" in located.data["train"] else PositionedData({})
        place = located.at(("train", "objective"))
        checked_options = self.modules.check("objectives", train.objective, place, options)
        if isinstance(checked_options, Variants):
            # A key and a table say which variant was trained, also where the file leaves it at the default.
            with_variant = train.model_copy(update={"options": {"variant": checked_options.variant, **train.options}})
            changes = {"train": with_variant, "variant_source": checked_options.variant_source}
            self.found[spec.name] = spec.model_copy(update=changes)
        if train.data != IN_DOMAIN:
            self.tasks.corpus(train.data, located.at(("train", "data")))
        if train.by_task and located.data.get("train", {}).get("by_task"):
            self._by_task(spec, train, located)
        for task in train.selection_tasks:
            self.tasks.load_scored(task, located.at(("train", "select_by")), "task to select by")
        needs = self.modules.needs("objectives", train.objective, checked_options)
        choice: ResourceChoice | None = getattr(checked_options, "resources", None)
        if needs and choice is not None:  # of an objective that edits words: those kinds that its module needs
            chosen = options.sub("resources") if "resources" in options.data else options
            resource_set = self.resources(choice, chosen, needs, above)
            if resource_set is not None:
                self.training_resources[spec.name] = resource_set.only(needs), needs
        self.models[spec.name] = {}
        objective = self.modules.opened("objectives", train.objective)
        for option in objective.model_options if checked_options is not None else ():
            model = getattr(checked_options, option)
            if model is None:
                continue
            self.models[spec.name][option] = model
            if model in self.files.registry.names("encoders"):
                place = located.at(("train", "options", option))
                self.load(model, place, above)
                self._check_not_remote(model, place, "no training can use it")
                self._whole(model, place)

    def _by_task(self, spec: EncoderSpec, train: TrainSpec, located: PositionedData) -> None:
        """Check the settings that a training has by task: that they are options, and that they fit the others."""
        objective = self.modules.opened("objectives", train.objective)
        models = set(objective.model_options) if objective is not None else set()
        places = {
            key: option_place
            for key, option_place in (self._option_places(spec) or {}).items()
            if key not in _NOT_BY_TASK | models
        }
        for task in train.by_task:
            settings = located.sub("train", "by_task", task)
            none = PositionedData({}, located.at(("train",)))
            with_settings = located.put(("train", "by_task"), none)
            with_settings = (
                with_settings if "options" in located.data["train"] else with_settings.put(("train", "options"), none)
            )
            for key in settings.data:
                if key in places:
                    with_settings = with_settings.put(places[key], settings.sub(key), settings.key_at((key,)))
                else:
                    self.files.problems.add(settings.key_at((key,)), unknown_message("setting by task", key, places))
            if validate(EncoderSpec, with_settings, self.files.problems) is not None:
                place = located.at(("train", "objective"))
                self.modules.check("objectives", train.objective, place, with_settings.sub("train", "options"))

    def _check_not_remote(self, name: str, place: str, so: str) -> None:
        """Add a problem where an encoder is behind an endpoint."""
        if name in self.found and self.found[name].endpoint is not None:
            self.files.problems.add(
                place, f"{name} is behind an endpoint and has no weights here, so {so}; name a folder or a hub id"
            )

    def _is_untrained(self, name: str) -> bool:
        """Return whether an encoder has the random weights of an architecture that no job trains."""
        return name in self.found and any(spec.random_weights for spec in iter_bases(self.found[name], self.found))

    def _whole(self, name: str, place: str) -> None:
        """Add a problem where an encoder drops layers as it is loaded, or keeps random weights, but its user needs all
        layers of a trained network."""
        if name not in self.found:
            return  # the problem was added when `name` was loaded
        if self._is_untrained(name):
            self.files.problems.add(place, f"encoder {name} keeps random weights; name one that was trained")
            return
        for spec in iter_bases(self.found[name], self.found):
            if spec.train is not None:
                return
            if spec.layers is not None:
                message = f"encoder {name} keeps {spec.layers} layers; name one that keeps them all"
                self.files.problems.add(place, message)
                return


_YAML_ENDINGS = (".yaml", ".yml")
_WITH_ENCODERS = frozenset({"encoders", "evaluate", "claims", "tables", "figures", "profiles"})
"""The keys of a suite below which an encoder may be named."""


class UnlistedEncoders:
    """The encoders of one suite that have no file.

    `own` holds their content by label, as that of a file. `notes` says which names could mean two things.
    """

    def __init__(self, registry: Registry, problems: Problems) -> None:
        self.registry, self.problems = registry, problems
        self.own: dict[str, PositionedData] = {}
        self.notes: list[str] = []

    def spell_out(self, located: PositionedData, beside: Path) -> PositionedData:
        """Return a suite, or a part of it, in which the folders of encoders are absolute paths.

        `beside` is the folder to which relative paths are relative. Elsewhere than in `encoders` and `victim`, a text
        counts as a path if it has a separator and a model lies there.
        """

        def change(where: DataPath, text: str, is_key: bool) -> str:
            if _names_encoder(where, is_key):
                return self._place(text, beside)
            if where[0] not in _WITH_ENCODERS or is_key or "/" not in text:
                return text
            head, bracket, options = text.partition("[")
            path = absolute_path(head, beside)
            return f"{path}{bracket}{options}" if is_model(path) else text

        return located.mapped(change)

    def label(self, merged: PositionedData, base: PositionedData) -> tuple[PositionedData, PositionedData]:
        """Give each folder and hub id in the suite `merged` a label, and return both suites with labels in place.

        `base` is the suite without profile and overrides, whose claims are compared with those of `merged`. Add a
        problem for each text that is neither a folder with a model nor the form of a hub id.
        """
        merged = self._take_written_out(merged)
        places: dict[str, str] = {}

        def look(where: DataPath, text: str, is_key: bool) -> str:
            if where[0] != "profiles" and _names_encoder(where, is_key) and "/" in text and text not in places:
                places[text] = merged.key_at(where) if is_key else merged.at(where)
                if (wrong := model_problem(text)) is not None:
                    self.problems.add(places[text], wrong)
            return text

        merged.mapped(look)
        label_by_text = labels(places, self.registry.names("encoders"))
        for text, label in label_by_text.items():
            content = {"name": label, "base": text, "unlisted": True}
            self.own[label] = PositionedData(content, places[text])

        def change(where: DataPath, text: str, is_key: bool) -> str:
            if where[0] not in _WITH_ENCODERS:
                return text
            head, bracket, options = (text, "", "") if text in label_by_text else text.partition("[")
            return f"{label_by_text[head]}{bracket}{options}" if head in label_by_text else text

        return merged.mapped(change), base.mapped(change)

    def _take_written_out(self, merged: PositionedData) -> PositionedData:
        """Return a suite with names in place of the encoders that it writes out: `{name: ..., endpoint: ...}`, or the
        path of a YAML file. Their content is kept as that of encoders without a file."""
        entries = []
        for item in iter_items(merged, "encoders"):
            content = item
            if isinstance(item.data, str) and item.data.endswith(_YAML_ENDINGS):
                try:
                    content = read_yaml(Path(item.data), self.problems)
                except SuiteError as error:
                    self.problems.take(error)
                    continue
                named = PositionedData(Path(item.data).stem, item.at())
                content = content if "name" in content.data else content.put(("name",), named)
            if content is not item or (isinstance(item.data, dict) and "endpoint" in item.data):
                name = content.data.get("name")
                if not isinstance(name, str) or not NAME.fullmatch(name):
                    self.problems.add(content.at(), "an encoder that a suite writes out needs a `name`: NAME")
                elif name in self.own or name in self.registry.names("encoders"):
                    self.problems.add(content.at(), f"there is an encoder {name} already; give this one another `name`")
                else:
                    self.own[name] = content
                    entries.append(PositionedData(name, content.at(("name",))))
                continue
            entries.append(item)
        written = merged.data.get("encoders")
        return merged if not written else merged.put(("encoders",), as_list(entries, merged.at(("encoders",))))

    def _place(self, text: str, beside: Path) -> str:
        """Return the place that a name means: the path of a folder, or a hub id. Any other name stays as it is."""
        path = absolute_path(text, beside)
        if text.endswith(_YAML_ENDINGS):
            return str(path)
        if text in self.registry.names("encoders"):
            if is_model(path):
                self._note(
                    f"encoder {text} is that of `rbench list encoders`; for the folder {shown_path(path)} "
                    f"write ./{text}"
                )
            return text
        if is_path(text):
            return str(path)
        if is_model(path):
            if HUB_ID.fullmatch(text):
                self._note(f"encoder {text} is the folder {shown_path(path)}, not the model of that id on the hub")
            return str(path)
        if "://" in text or "/" not in text:
            return text
        return str(path) if text.count("/") > 1 or _exists(path) else text

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def absolute_path(text: str, beside: Path) -> Path:
    """Return a path with `~` expanded, without `..`, and relative to `beside` where it is relative."""
    path = Path(text)
    with contextlib.suppress(RuntimeError):  # `~somebody` without such a user
        path = path.expanduser()
    return Path(os.path.abspath(beside / path))  # noqa: PTH100 (a link keeps its name, unlike with Path.resolve)


def is_model(folder: Path) -> bool:
    """Return whether a folder holds a model: one of transformers or of sentence-transformers."""
    return any(_exists(folder / name) for name in ("config.json", "modules.json"))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name that is too long
        return False


def model_problem(place: str) -> str | None:
    """Say what is wrong with a place, and the remedy; None where it has the form of a hub id, or a model lies there."""
    path = Path(place)
    if not path.is_absolute():
        expected = "expected a folder (./NAME, or its path), a hub id (OWNER/NAME), or a name of rbench list encoders"
        return None if HUB_ID.fullmatch(place) else f"{place}: {expected}"
    if is_model(path):
        return None
    if not _exists(path):
        near = f"; beside it there is {', '.join(inside)}" if (inside := _models_in(path.parent)) else ""
        return f"{shown_path(path)}: there is no such folder{near}"
    if not path.is_dir():
        return f"{shown_path(path)} is a file; name the folder of the model, which has a config.json"
    start = f"{shown_path(path)} has no model: neither a config.json nor a modules.json"
    if _exists(path / "adapter_config.json"):
        return f"{start}, but an adapter (PEFT); merge it into its base, save the result, and name that folder"
    if inside := _models_in(path):
        return f"{start}; these folders in it have one: {', '.join(inside)}"
    return f"{start}. A folder is what save_pretrained of transformers or save of sentence-transformers writes"


def _models_in(folder: Path) -> list[str]:
    """Return up to three folders with a model directly in a folder, by name."""
    try:
        names = sorted(inside.name for inside in folder.iterdir() if is_model(inside))
    except OSError:
        return []
    return names if len(names) <= 3 else [*names[:3], "..."]


def _names_encoder(where: DataPath, is_key: bool) -> bool:
    """Return whether an encoder's name stands at `where` in a suite or one of its profiles: under `encoders`, or as the
    `victim` of an adversarial set. A choice is `NAME`, `{NAME: OPTIONS}` or `{name: NAME, options: OPTIONS}`."""
    steps = [step for step in where if isinstance(step, str)]
    steps = steps[2:] if steps[:1] == ["profiles"] else steps
    if is_key and steps[-1:] in (["name"], ["options"]):
        return False
    if is_key or steps[-1:] == ["name"]:
        steps = steps[:-1]
    return steps == ["encoders"] or (steps[:1] == ["evaluate"] and steps[-1:] == ["victim"])
