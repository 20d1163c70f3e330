"""Loads resource profiles, the word lists and models that attacks and trainings use, and puts single resources in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rbench.load.check import check
from rbench.load.files import Files
from rbench.load.positions import Positioned
from rbench.load.registry import unknown
from rbench.spec import RESOURCE_KINDS, ResourceChoice, ResourceKind, ResourceProfile, Source

LOADERS: dict[ResourceKind, tuple[tuple[str, ...], str | None]] = {
    "word_vectors": (("textattack-counterfitted", "mini"), "folder"),
    "synonyms": (("wordnet", "mini"), "folder"),
    "masked_lm": ((), "hub"),
    "sentence_encoder": (("use", "mini"), "sentence-transformers"),
    "pos_tagger": (("nltk", "mini"), None),
    "stopwords": (("nltk", "mini"), None),
}
"""By resource kind: the source kinds (rbench.resources) that need no name, and the one for a folder or hub id."""


@dataclass(frozen=True)
class ChosenProfile:
    """A profile with its replaced resources, and the place where each of its sources stands."""

    profile: ResourceProfile
    places: dict[ResourceKind, str]

    def encoders(self, needed: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield name and place of each registry encoder that serves as a resource of a `needed` kind."""
        for kind in RESOURCE_KINDS:
            source: Source | None = getattr(self.profile, kind)
            if kind in needed and source is not None and source.kind == "encoder" and source.name is not None:
                yield source.name, self.places[kind]


class Resources:
    """Loads resource profiles."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def load(self, choice: ResourceChoice, chosen: Positioned) -> ChosenProfile | None:
        """Return the profile with the choice's single resources put in; None where something is wrong.

        `chosen` holds the places of the choice.
        """
        if self.files.path("resources", choice.profile, chosen.at(("profile",))) is None:
            return None
        located = self.files.named("resources", choice.profile)
        profile = check(ResourceProfile, located, self.files.problems) if located else None
        if profile is None or located is None:
            return None
        places = {kind: located.at((kind, "name")) for kind in RESOURCE_KINDS}
        replaced: dict[str, Source | None] = {}
        for kind in RESOURCE_KINDS:
            if (name := getattr(choice, kind)) is not None:
                places[kind] = chosen.at((kind,))
                replaced[kind] = self._source(kind, name, places[kind])
        return ChosenProfile(profile.model_copy(update=replaced), places)

    def _source(self, kind: ResourceKind, name: str, place: str) -> Source | None:
        """Return the source that a suite's `name` means.

        It is a source kind that needs no name, a registry encoder with `train`, a folder or a hub id.
        """
        alone, named = LOADERS[kind]
        if name in alone:
            return Source(kind=name)
        if kind == "masked_lm" and name in self.files.registry.names("encoders"):
            located = self.files.named("encoders", name)
            if located is not None and "train" in located.data:
                return Source(kind="encoder", name=name)
        if named is not None:
            return Source(kind=named, name=name)
        self.files.problems.add(place, unknown(f"source of {kind}", name, alone))
        return None
