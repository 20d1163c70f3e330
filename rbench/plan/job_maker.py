"""Makes jobs and remembers them, and says what their keys hold of code and resources."""

from __future__ import annotations

from collections.abc import Mapping

from rbench.plan.inputs import Code, PlanInputs
from rbench.plan.lineage import portable, weights_source
from rbench.spec import Job, ResourceProfile, Suite
from rbench.spec.jobs import AnyJob


class JobMaker:
    """Makes jobs and remembers them, so that each exists once."""

    def __init__(self, suite: Suite, inputs: PlanInputs) -> None:
        self.suite, self.inputs = suite, inputs
        self.made: dict[str, Job] = {}

    def _job(self, spec: AnyJob, parts: tuple[str, ...], needed: Mapping[str, Job | None], seed: int) -> Job:
        """Make a job, or return it if it was made before. Roles in `needed` without a job are left out."""
        needs = {role: below.key for role, below in needed.items() if below is not None}
        job = Job.make(spec, parts, needs, seed)
        return self.made.setdefault(job.key, job)

    def _code(self, *names: str | None) -> Code:
        """Merge the code under `names` into what a job's key holds: VERSIONs above 1, and the source a user added."""
        found = [self.inputs.code[name] for name in names if name is not None and name in self.inputs.code]
        versions = {name: version for one in found for name, version in one.versions.items() if version > 1}
        return Code("".join(one.source for one in found), versions)

    def _keyed(self, encoder: str) -> str:
        """Return the name of an encoder that enters keys. Of one without a file it is not the label: see `portable`."""
        return encoder if encoder in self.inputs.victims else portable(self.inputs.encoders[encoder]).name

    def _opened(self, encoder: str) -> str | None:
        """Return the name in `versions.PARTS` of the code that makes the encoder's weights: a table of word vectors, or
        random numbers. Return None for weights that are read."""
        source = weights_source(encoder, self.inputs.encoders)
        if source is None:
            return None
        return "random encoder" if source.random_weights else "static encoder" if source.word_vectors else None

    def _hashes(self, profile: ResourceProfile | None) -> dict[str, str]:
        """Return the content hashes of a profile's resources, for those that no job makes."""
        found = sorted(self.inputs.resource_weights.items())
        return {kind: value for kind, value in found if profile is not None and getattr(profile, kind) is not None}
