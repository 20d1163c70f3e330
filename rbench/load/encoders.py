"""Loads encoders with everything they depend on: bases, corpora, and the models and resources of their training."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from rbench.load.check import check
from rbench.load.files import Files
from rbench.load.modules import Modules
from rbench.load.positions import Positioned, Where
from rbench.load.registry import unknown
from rbench.load.resources import Resources
from rbench.load.tasks import Tasks
from rbench.spec import (
    IN_DOMAIN,
    RESOURCE_KINDS,
    EncoderSpec,
    ResourceChoice,
    ResourceKind,
    ResourceProfile,
    TrainSpec,
    Variants,
    bases,
)

_CHANGEABLE = ("pooling", "layers", "max_length", "head")
"""The fields that a suite may change of an encoder without `train`."""
_STEPS_AND_EPOCHS = "steps and epochs exclude each other; take out one of them"


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
        self._resources = Resources(files)

    def load(self, name: str, place: str, above: tuple[str, ...] = ()) -> None:
        """Load an encoder, the registry encoder that is its base, and everything that it trains with.

        `above` are the encoders that depend on it.
        """
        located = self.own.get(name)
        if located is None and self.files.path("encoders", name, place) is None:
            return
        if name in above:
            self.files.problems.add(place, f"the bases go round in a circle: {' -> '.join([*above, name])}")
        elif self.files.first("encoders", name):
            located = located or self.files.named("encoders", name)
            spec = check(EncoderSpec, located, self.files.problems) if located else None
            if spec is None or located is None:
                return
            if spec.train is not None and None not in (spec.train.steps, spec.train.epochs):
                self.files.problems.add(located.key_at(("train", "epochs")), _STEPS_AND_EPOCHS)
            self._keep(name, spec, located, above)

    def variant(self, name: str, options: Positioned, label: str, place: str) -> None:
        """Load the encoder `name` under `label`, with a suite's options in place of its own.

        For an encoder with `train`, options are those of its objective and the other keys of `train`. For any other
        encoder, they are `pooling`, `layers`, `max_length` and `head`.
        """
        own = self.found.get(name)
        located = self.files.named("encoders", name) if name in self.files.registry.names("encoders") else None
        ways = self._ways(own) if own is not None else None
        if located is None or ways is None:
            return  # the problem was added when `name` was loaded
        located = located.put(("name",), Positioned(label, {(): place}))
        if ways.get("epochs") == ("train", "epochs") and "epochs" in options.data:
            if "steps" in options.data:
                self.files.problems.add(options.key_at(("epochs",)), _STEPS_AND_EPOCHS)
            # Where an encoder has both, steps win over epochs. So the file's steps are removed for a suite's epochs.
            located = located.put(("train", "steps"), Positioned(None, {(): place}))
        for key in options.data:
            if key in ways:
                located = located.put(ways[key], options.sub(key), options.key_at((key,)))
            else:
                self.files.problems.add(options.key_at((key,)), unknown(f"option of {name}", key, ways))
        spec = check(EncoderSpec, located, self.files.problems)
        if spec is not None:
            self._keep(label, spec, located, ())

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
        found = self._resources.load(choice, chosen)
        if found is None:
            return None
        for name, place in found.encoders(needed):
            self.load(name, place, above)
        return found.profile

    def _ways(self, spec: EncoderSpec) -> dict[str, Where] | None:
        """Map each option of a variant to its place in an encoder's file; None where its objective cannot be opened."""
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
        if spec.tokenizer is not None and spec.tokenizer in self.files.registry.names("encoders"):
            self.load(spec.tokenizer, located.at(("tokenizer",)), (*above, name))
            self._reads(spec.tokenizer, located.at(("tokenizer",)))
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
        for task in train.selecting:
            self.tasks.scored(task, located.at(("train", "select_by")), "task to select by")
        self._training_resources(spec.name, train, made, options, above)
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

    def _training_resources(
        self, name: str, train: TrainSpec, made: BaseModel | None, options: Positioned, above: tuple[str, ...]
    ) -> None:
        """Load the `resources` of an objective that edits words: those kinds that its module needs."""
        needs = self.modules.needs("objectives", train.objective, made)
        choice: ResourceChoice | None = getattr(made, "resources", None)
        if not needs or choice is None:
            return
        chosen = options.sub("resources") if "resources" in options.data else options
        profile = self.resources(choice, chosen, needs, above)
        if profile is not None:
            self.training_resources[name] = profile.only(needs), needs

    def _untrained(self, name: str) -> bool:
        """Return whether an encoder has the random weights of an architecture that no job trains."""
        return name in self.found and any(spec.random_weights for spec in bases(self.found[name], self.found))

    def _reads(self, name: str, place: str) -> None:
        """Add a problem where an encoder has no tokenizer of its own that another could read with."""
        if name in self.found and (
            self._untrained(name) or any(spec.word_vectors for spec in bases(self.found[name], self.found))
        ):
            message = f"{name} has no tokenizer of its own; name an encoder that was trained, a folder or a hub id"
            self.files.problems.add(place, message)

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
