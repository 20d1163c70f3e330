"""Hold what the jobs of one run share (`Context`), and open and check the inputs of one job (`Inputs`): weights that
earlier jobs made, weights and resources in other places, and victims, which jobs fine-tuned or which exist.

A job takes places from the plan and never searches. It opens each through `Inputs`, which compares the files there with
the planned fingerprint. The job calls `check` when everything is loaded and again when the work is done: networks are
memory-mapped and WordNet is read while it is used, so files that are replaced at any time could change the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rbench.config.code import Module
from rbench.errors import JobError
from rbench.execution.cluster.scheduler import Team
from rbench.plan.lineage import as_trained, registered_base
from rbench.plan.rows import Rows
from rbench.schema import (
    AskedSet,
    EncoderSpec,
    FinetuneJob,
    Job,
    MeasureJob,
    Plan,
    PretrainJob,
    Provenance,
    ResourceKind,
    ResourceSet,
    Specs,
    Split,
    TaskSpec,
    VictimSpec,
)
from rbench.schema.common import Embeddings
from rbench.store.job_status import SHORT, standing_on
from rbench.store.runs import Store
from rbench.store.weights import WeightCache, weights_hash
from rbench.system import digests
from rbench.system.digests import Located, Places, Watch
from rbench.system.one_slot_cache import OneSlotCache
from rbench.system.progress import Progress
from rbench.tasks import SetData, TaskData

N = TypeVar("N")
Source = Callable[..., Provenance]
"""Makes the provenance of a record. Its keyword arguments are the fields that the stage adds."""


def changed(name: str) -> JobError:
    """Return the error for data that are no longer those that were planned."""
    return JobError(f"the data of {name} changed while the run was under way; run the command again")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context(Specs):
    """What the jobs of one run share: what the suite names, where it lies, stores, and what is loaded at the moment.

    Texts of the sets that are there (`sets`) are kept out of the training rows. `victims` have the paths and headers
    that jobs lack.
    """

    plan: Plan
    store: Store
    team: Team
    """The processes that run these jobs, this one included."""
    cache: WeightCache
    modules: Mapping[tuple[str, str], Module]
    """Modules by kind and name, each as it was when the run was planned."""
    rows: Rows
    """Gives the rows that planning read. Reads them again if their files changed since."""
    places: Places
    """Where planning found the weights and resources."""
    device: str
    workers: Any
    """`rbench.recipes.Workers`; None if the run has no attacks."""
    progress: Progress
    logs: Path
    """The folder for files of training trackers."""
    report_to: tuple[str, ...] = ()
    """Names of trackers, as in transformers."""
    network: OneSlotCache[Any] = dataclasses.field(default_factory=OneSlotCache)
    """The encoder or victim of the last evaluation, kept in case the next one needs the same."""
    _tasks: dict[str, TaskData] = dataclasses.field(default_factory=dict)
    _sets: dict[tuple[str, str], SetData] = dataclasses.field(default_factory=dict)

    def data(self, task: TaskSpec, fingerprint: str, split: Split | None = None) -> TaskData:
        """Return the task's rows. Raises JobError unless they (or those of `split`) have the planned fingerprint."""
        data = self.task(task)
        if (data.fingerprint if split is None else data.split_fingerprint(split)) != fingerprint:
            raise changed(task.name)
        return data

    def task(self, spec: TaskSpec) -> TaskData:
        """Return the task's rows as they are when a job first asks. Does not compare them with the plan."""
        if spec.name not in self._tasks:
            sets = [self.set(one, spec) for one in self.sets.get(spec.name, ()) if not one.made]
            self._tasks[spec.name] = self.rows.task(spec, sets)
        return self._tasks[spec.name]

    def set(self, asked: AskedSet, task: TaskSpec) -> SetData:
        """Return the rows of a set as they are when a job first asks. Does not compare them with the plan."""
        of = task.name, asked.set.name
        if of not in self._sets:
            self._sets[of] = self.rows.set(asked, task)
        return self._sets[of]


def own(spec: PretrainJob, context: Context) -> EncoderSpec:
    """Return the encoder as it is trained, with its paths, which the job's spec lacks."""
    assert spec.encoder.train is not None
    return as_trained(context.encoders[spec.encoder.name], context.encoders, spec.encoder.train.data)


def check_like(training: Job, weights: str, context: Context) -> None:
    """Raise JobError where results of the RUN stand on other weights of a training than those with this hash."""
    store, plan = context.store, context.plan
    records = {
        job.key: record
        for job in plan.jobs
        if (job.key == training.key or training.key in job.needs.values())
        and (record := store.look(job).record) is not None
    }
    others = [(job, own) for job, own in standing_on(plan, records, training.key) if own != weights]
    if others:
        user, old = others[-1]
        raise JobError(
            f"the weights of {training.name} in the cache ({weights[:SHORT]}) are not those on which {user.name} in "
            f"this RUN stands ({old[:SHORT]}). Put these back into the cache ({context.cache.root}); or begin anew "
            f"with --fresh; or delete {store.folder(training)} and the folders of all results that stand on it, and "
            "they are made again"
        )


class Inputs:
    """The inputs of one job. All methods raise JobError if something is not as it was planned."""

    def __init__(self, job: Job, context: Context) -> None:
        self._job, self._context = job, context
        self._watch = Watch()
        self._resources: list[Any] = []

    def check(self, ask: bool = False) -> None:
        """Check again everything that was opened. `ask`: also what has no files, as at the end of a job."""
        self._watch.check(ask)
        for resources in self._resources:
            resources.check()

    def open(self, place: Located) -> str:
        """Check that a place holds what was planned, and return its path or hub id."""
        return self._watch.open(place)

    def place(self, role: str, name: str) -> Located:
        """Return the place of a role's weights: made by the role's job or, if there is none, found for `name`."""
        return self.made(role) if role in self._job.needs else self._context.places.weights[name]

    def weights(self, role: str, name: str) -> Path | str:
        """Check the weights for a role, and return their path or hub id; see `place`."""
        where = self.open(self.place(role, name))
        return Path(where) if role in self._job.needs else where

    def hash_of(self, role: str, place: Located) -> str:
        """Return the hash of a role's weights for the record. If a job made them, only safetensors files count."""
        return weights_hash(Path(place.where)) if role in self._job.needs else place.fingerprint

    def network(self, place: Located, how: str, load: Callable[[str], N]) -> N:
        """Return the network at a place for inference only. The network of the last evaluation is reused if it fits.

        Args:
            how: everything besides the place that decides which network `load` returns.
        """
        where = self.open(place)

        def checked() -> N:
            network = load(where)
            self.check()  # before it is kept: the files may have been replaced during the load
            return network

        network: N = self._context.network.get((place, how), checked)
        return network

    def base(self, spec: EncoderSpec) -> Path | str | None:
        """Return the weights from which an encoder's training starts; None if it starts from an architecture."""
        if spec.base is None:
            return None
        return self.weights("base", registered_base(spec, self._context.encoders) or spec.name)

    def made(self, role: str) -> Located:
        """Return where the cache has the weights that the job in this role made."""
        key = self._job.needs[role]
        folder = self._context.cache.folder(key)
        check_like(self._context.plan.job(key), weights_hash(folder), self._context)
        place = digests.located(folder)
        self._context.cache.folder(key)  # check again: the hashed files are those that the entry lists
        return place

    def existing(self, role: str = "victim") -> VictimSpec | None:
        """Return the classifier that exists in this role, or None where a job made the victim."""
        opened = self._context.plan.job(self._job.needs[role]).opening
        return self._context.victims[opened.victim.name] if opened is not None else None

    def victim(self, role: str = "victim") -> Located:
        """Return where a victim is: in the cache if a job made it, else where planning found the classifier."""
        opened = self._context.plan.job(self._job.needs[role]).opening
        if opened is not None:
            return self._context.places.victims[opened.victim.name, opened.task.name]
        return self.made(role)

    def places(self, resource_set: ResourceSet, encoder: str | None = None) -> dict[ResourceKind, Located]:
        """Return where the sources of a resource set are: as planned, or the cache for a masked LM that a job made.

        Args:
            encoder: the encoder whose training needs its own resource set; None for the suite's, which attacks and
                strategies use.
        """
        planned = self._context.places
        found = dict(planned.resources if encoder is None else planned.training[encoder])
        lm = resource_set.masked_lm
        ours = lm is not None and lm.kind == "encoder" and found.pop("masked_lm", None) is not None
        if ours and "masked_lm" in self._job.needs:
            found["masked_lm"] = self.made("masked_lm")
        return found

    def resources(self, resource_set: ResourceSet | None, encoder: str | None = None) -> Any:
        """Return the sources of a resource set, each loaded at its first use; None without one."""
        if resource_set is None:
            return None
        from rbench.words.resources import Resources

        found = Resources(resource_set, places=self.places(resource_set, encoder), device=self._context.device)
        self._resources.append(found)
        return found

    def hashes(self, resource_set: ResourceSet, kinds: Collection[str], encoder: str | None = None) -> dict[str, str]:
        """Compute the hashes of resources for a record. For a masked LM that a job made, its weights are hashed."""
        ours = resource_set.masked_lm is not None and resource_set.masked_lm.kind == "encoder"
        return {
            str(kind): weights_hash(Path(place.where)) if ours and kind == "masked_lm" else place.check()
            for kind, place in self.places(resource_set, encoder).items()
            if kind in kinds
        }


def endpoint_of(job: Job, context: Context) -> Embeddings | None:
    """Return the endpoint behind which the encoder of a job is, or that of the victim that it needs; None of others."""
    spec = job.spec
    if isinstance(spec, FinetuneJob | MeasureJob) and spec.encoder is not None:
        name = job.parts[0]
        return context.encoders[name].endpoint if name in context.encoders else None
    key = job.needs.get("victim")
    return endpoint_of(context.plan.job(key), context) if key is not None else None


def victim_of(inputs: Inputs, task: TaskSpec, context: Context, role: str = "victim") -> Any:
    """Return the victim in a role: a classifier that exists, or what a job made, which is a classifier, a scorer or a
    retriever by the kind of the task."""
    place, given = inputs.victim(role), inputs.existing(role)
    if given is not None:
        return opened(inputs, place, given, task, context)
    from rbench.encoders import load_victim

    return inputs.network(place, "victim", lambda where: load_victim(Path(where), context.device)[0])


def victim_hash(inputs: Inputs, role: str = "victim") -> str:
    """Return the hash of a victim's weights for a record. Of a classifier that exists it is the planned fingerprint."""
    place = inputs.victim(role)
    return place.fingerprint if inputs.existing(role) is not None else weights_hash(Path(place.where))


def opened(
    inputs: Inputs, place: Located, given: VictimSpec, task: TaskSpec, context: Context, *, forgiving: bool = False
) -> Any:
    """Open the classifier that exists at a place. Raises JobError if it is no longer the planned one.

    `forgiving`: as `rbench.victims.remote_classifier.Asked` takes it.
    """
    if given.origin == "model":
        from rbench.victims.model import open_model

        return inputs.network(
            place,
            f"{given.model_dump_json()} {task.model_dump_json()}",
            lambda where: open_model(given, where, task, context.device),
        )
    from rbench.victims.remote_classifier import Asked, open_answers

    inputs.open(place)
    return Asked(open_answers(given, task), forgiving=forgiving)
