"""What one job opens: weights that earlier jobs made, weights and resources that lie somewhere; each is checked.

A job takes places from the plan and never searches. It opens each through `Inputs`, which compares what lies there with
what was planned, and calls `check` when all is loaded and when the work is done: networks are mapped from their files,
and WordNet is read while it is used, so that an exchange at any time would decide the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from rbench.plan.lineage import in_domain_for, registered_base
from rbench.spec import IN_DOMAIN, EncoderSpec, Job, PretrainJob, ResourceKind, ResourceProfile
from rbench.stages.context import Context
from rbench.storage.weights import weights_hash
from rbench.system import located
from rbench.system.located import Located, Watch

N = TypeVar("N")


def own(spec: PretrainJob, context: Context) -> EncoderSpec:
    """The encoder with its paths, of which the job's spec holds none; an in-domain one with its task's corpus."""
    own = context.encoders[spec.encoder.name]
    assert own.train is not None and spec.encoder.train is not None
    return in_domain_for(own, spec.encoder.train.data) if own.train.data == IN_DOMAIN else own


class Inputs:
    """The inputs of one job. All methods raise JobError where something is not what was planned."""

    def __init__(self, job: Job, context: Context) -> None:
        self._job, self._context = job, context
        self._watch = Watch()
        self._resources: list[Any] = []

    def check(self) -> None:
        """Look at all that was opened again."""
        self._watch.check()
        for resources in self._resources:
            resources.check()

    def open(self, place: Located) -> str:
        """Where it lies, once it is clear that it is what was planned."""
        return self._watch.open(place)

    def place(self, role: str, name: str) -> Located:
        """The weights that the job in a role made; where no job plays it, those that planning found for `name`."""
        return self.made(role) if role in self._job.needs else self._context.places.weights[name]

    def weights(self, role: str, name: str) -> Path | str:
        """Where the weights in a role lie, once it is clear that they are what was planned."""
        where = self.open(self.place(role, name))
        return Path(where) if role in self._job.needs else where

    def hash_of(self, role: str, place: Located) -> str:
        """The hash for a record of the weights in a role: of those that a job made, that of the weights alone."""
        return weights_hash(Path(place.where)) if role in self._job.needs else place.fingerprint

    def network(self, place: Located, how: str, load: Callable[[str], N]) -> N:
        """The network at a place, to be read and not to be trained; what the last evaluation opened, if it is that one.

        Args:
            how: all that decides which network `load` makes of the place.
        """
        where = self.open(place)

        def checked() -> N:
            network = load(where)
            self.check()  # before it is kept: it may have been read while the place was exchanged
            return network

        network: N = self._context.network.get((place, how), checked)
        return network

    def base(self, spec: EncoderSpec) -> Path | str | None:
        """What the training of an encoder starts from; None where that is an architecture."""
        if spec.base is None:
            return None
        return self.weights("base", registered_base(spec, self._context.encoders) or spec.name)

    def made(self, role: str) -> Located:
        """The weights that the job in this role made, as its cache entry has them."""
        key = self._job.needs[role]
        place = located.folder(self._context.cache.folder(key))
        self._context.cache.folder(key)  # verified once more: what was hashed is what the entry lists
        return place

    def places(self, profile: ResourceProfile, encoder: str | None = None) -> dict[ResourceKind, Located]:
        """Where the resources of a profile lie: as planned, and a masked LM of ours where a job made it.

        Args:
            encoder: whose objective asks for it, of a profile of its own; None: attacks and strategies, of the suite's.
        """
        planned = self._context.places
        found = dict(planned.resources if encoder is None else planned.training[encoder])
        lm = profile.masked_lm
        ours = lm is not None and lm.kind == "encoder" and found.pop("masked_lm", None) is not None
        if ours and "masked_lm" in self._job.needs:
            found["masked_lm"] = self.made("masked_lm")
        return found

    def resources(self, profile: ResourceProfile | None, encoder: str | None = None) -> Any:
        """The same, each loaded when a training asks for it; None where it asks for nothing."""
        if profile is None:
            return None
        from rbench.resources import Resources

        found = Resources(profile, places=self.places(profile, encoder), device=self._context.device)
        self._resources.append(found)
        return found

    def hashes(self, profile: ResourceProfile, kinds: Collection[str], encoder: str | None = None) -> dict[str, str]:
        """Hashes of these resources for a record, computed now; of a masked LM of ours its weights'."""
        ours = profile.masked_lm is not None and profile.masked_lm.kind == "encoder"
        return {
            str(kind): weights_hash(Path(place.where)) if ours and kind == "masked_lm" else place.check()
            for kind, place in self.places(profile, encoder).items()
            if kind in kinds
        }
