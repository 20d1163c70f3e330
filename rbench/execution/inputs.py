"""Hold what the jobs of one run share (`RunContext`), and open and check the inputs of one job (`JobInputs`).

Inputs are weights, resources and victims. Some are made by earlier jobs and lie in the cache; others the user has, and
planning found their places. A job never searches: it opens each place through `JobInputs`, which compares the files
there with the planned fingerprint.

A job calls `check` when everything is loaded, and again when its work is done. Networks are memory-mapped and WordNet
is read while it is used, so a file that somebody replaces meanwhile could change the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from rbench.config.code import ModuleFile
from rbench.errors import JobError
from rbench.execution.cluster.scheduler import WorkerGroup
from rbench.plan.lineage import as_trained, registered_base
from rbench.plan.rows import RowCache
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
from rbench.schema.common import EmbeddingsEndpoint
from rbench.store.job_status import SHORT_DIGITS, find_users
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, weights_hash
from rbench.system import digests
from rbench.system.digests import FingerprintedPlace, FoundPlaces, PlaceWatch
from rbench.system.one_slot_cache import OneSlotCache
from rbench.system.progress import Progress
from rbench.tasks import SetData, TaskData

NetworkT = TypeVar("NetworkT")
ProvenanceMaker = Callable[..., Provenance]
"""Makes the provenance of a record. Its keyword arguments are the fields that the stage adds."""


def changed_data_error(name: str) -> JobError:
    """Return the error for data that are no longer those that were planned."""
    return JobError(f"the data of {name} changed while the run was under way; run the command again")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunContext(Specs):
    """What the jobs of one run share: the specs of all that the suite names, its places, stores, and what is loaded.

    `victims` have paths and headers. The specs in jobs lack them, since jobs enter keys and are stored.
    """

    plan: Plan
    store: RunStore
    team: WorkerGroup
    """The processes that run these jobs, this one included."""
    cache: WeightCache
    modules: Mapping[tuple[str, str], ModuleFile]
    """Modules by kind and name, each as it was when the run was planned."""
    rows: RowCache
    """Gives the rows that planning read. Reads them again if their files changed since."""
    places: FoundPlaces
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
            raise changed_data_error(task.name)
        return data

    def task(self, spec: TaskSpec) -> TaskData:
        """Return the task's rows, read at the first call and not compared with the plan; `data` compares them.

        Texts of the suite's contrast and adversarial sets are kept out of the training rows, but for sets that the RUN
        makes, which do not exist yet.
        """
        if spec.name not in self._tasks:
            sets = [self.set(asked_set, spec) for asked_set in self.sets.get(spec.name, ()) if not asked_set.made]
            self._tasks[spec.name] = self.rows.task(spec, sets)
        return self._tasks[spec.name]

    def set(self, asked: AskedSet, task: TaskSpec) -> SetData:
        """Return the rows of a contrast or adversarial set, read at the first call and not compared with the plan."""
        set_key = task.name, asked.set.name
        if set_key not in self._sets:
            self._sets[set_key] = self.rows.set(asked, task)
        return self._sets[set_key]


def encoder_as_trained(spec: PretrainJob, context: RunContext) -> EncoderSpec:
    """Return the encoder that a job trains, with the settings of this training and with the paths that `spec` lacks."""
    assert spec.encoder.train is not None
    return as_trained(context.encoders[spec.encoder.name], context.encoders, spec.encoder.train.data)


def check_same_weights(training: Job, weights: str, context: RunContext) -> None:
    """Raise JobError if a result of the RUN was computed with other weights of `training`.

    Args:
        training: the job that makes the weights.
        weights: the hash of those that are in the cache now.
    """
    store, plan = context.store, context.plan
    records = {}
    for job in plan.jobs:
        if job.key == training.key or training.key in job.needs.values():
            record = store.look(job).record
            if record is not None:
                records[job.key] = record
    differing = [(job, used_hash) for job, used_hash in find_users(plan, records, training.key) if used_hash != weights]
    if differing:
        dependent_job, used_hash = differing[-1]  # rather one that needs the training than the training itself
        raise JobError(
            f"the weights of {training.name} in the cache ({weights[:SHORT_DIGITS]}) are not those on which "
            f"{dependent_job.name} in this RUN stands ({used_hash[:SHORT_DIGITS]}). Put these back into the cache "
            f"({context.cache.root}); or begin anew with --fresh; or delete {store.folder(training)} and the folders "
            "of all results that stand on it, and they are made again"
        )


class JobInputs:
    """The inputs of one job. All methods raise JobError if something is not as it was planned."""

    def __init__(self, job: Job, context: RunContext) -> None:
        self._job, self._context = job, context
        self._watch = PlaceWatch()
        self._resources: list[Any] = []

    def check(self, ask: bool = False) -> None:
        """Check again everything that was opened.

        Args:
            ask: send functions and endpoints, which have no files to look at, their probe again. It costs queries, so
                only the end of a job asks for it.
        """
        self._watch.check(ask)
        for resources in self._resources:
            resources.check()

    def open(self, place: FingerprintedPlace) -> str:
        """Check that a place holds what was planned, and return its path or hub id."""
        return self._watch.open(place)

    def place(self, role: str, name: str) -> FingerprintedPlace:
        """Return the place of the weights for a role: in the cache if a job makes them, else where planning found
        `name`."""
        return self.made_weights(role) if role in self._job.needs else self._context.places.weights[name]

    def weights(self, role: str, name: str) -> Path | str:
        """Check the weights for a role, and return their path or hub id; see `place`."""
        where = self.open(self.place(role, name))
        return Path(where) if role in self._job.needs else where

    def hash_of(self, role: str, place: FingerprintedPlace) -> str:
        """Return the hash of a role's weights for the record.

        Of weights that a job made it is `weights_hash`, as in the record of that job. It covers safetensors files only,
        but the fingerprint of a place covers all files.
        """
        return weights_hash(Path(place.where)) if role in self._job.needs else place.fingerprint

    def network(self, place: FingerprintedPlace, settings: str, load: Callable[[str], NetworkT]) -> NetworkT:
        """Return the network at a place for inference only. The network of the last evaluation is reused if its place
        and settings are the same.

        Args:
            settings: all that decides which network `load` returns, besides the place.
            load: loads the network from the path or hub id that it is given.
        """
        where = self.open(place)

        def load_checked() -> NetworkT:
            network = load(where)
            self.check()  # before it is kept: the files may have been replaced during the load
            return network

        network: NetworkT = self._context.network.get((place, settings), load_checked)
        return network

    def base(self, spec: EncoderSpec) -> Path | str | None:
        """Return the weights from which an encoder's training starts; None if it starts from an architecture."""
        if spec.base is None:
            return None
        return self.weights("base", registered_base(spec, self._context.encoders) or spec.name)

    def made_weights(self, role: str) -> FingerprintedPlace:
        """Return where the cache has the weights that the job in this role made."""
        key = self._job.needs[role]
        folder = self._context.cache.folder(key)
        check_same_weights(self._context.plan.job(key), weights_hash(folder), self._context)
        place = digests.locate_folder(folder)
        self._context.cache.folder(key)  # check again: the hashed files are those that the entry lists
        return place

    def existing_classifier(self, role: str = "victim") -> VictimSpec | None:
        """Return the user's classifier in this role, or None where a job made the victim."""
        opening = self._context.plan.job(self._job.needs[role]).opening
        return self._context.victims[opening.victim.name] if opening is not None else None

    def victim(self, role: str = "victim") -> FingerprintedPlace:
        """Return where a victim is: in the cache if a job made it, else where planning found the classifier."""
        opening = self._context.plan.job(self._job.needs[role]).opening
        if opening is not None:
            return self._context.places.victims[opening.victim.name, opening.task.name]
        return self.made_weights(role)

    def places(self, resource_set: ResourceSet, encoder: str | None = None) -> dict[ResourceKind, FingerprintedPlace]:
        """Return where the sources of a resource set are: as planned, or the cache for a masked LM that a job made.

        Args:
            encoder: the encoder whose training needs its own resource set; None for the suite's, which attacks and
                strategies use.
        """
        planned = self._context.places
        located = dict(planned.resources if encoder is None else planned.training[encoder])
        lm = resource_set.masked_lm
        if lm is not None and lm.kind == "encoder" and "masked_lm" in located:
            # The masked LM is an encoder that this RUN trains. Planning has only a stand-in for its place.
            del located["masked_lm"]
            if "masked_lm" in self._job.needs:
                located["masked_lm"] = self.made_weights("masked_lm")
        return located

    def resources(self, resource_set: ResourceSet | None, encoder: str | None = None) -> Any:
        """Return the sources of a resource set, each loaded at its first use; None without one."""
        if resource_set is None:
            return None
        from rbench.words.resources import Resources

        resources = Resources(resource_set, places=self.places(resource_set, encoder), device=self._context.device)
        self._resources.append(resources)
        return resources

    def hashes(self, resource_set: ResourceSet, kinds: Collection[str], encoder: str | None = None) -> dict[str, str]:
        """Compute the hashes of resources for a record, by kind; of a masked LM that a job made, `weights_hash`."""
        lm_is_trained = resource_set.masked_lm is not None and resource_set.masked_lm.kind == "encoder"
        return {
            str(kind): weights_hash(Path(place.where)) if lm_is_trained and kind == "masked_lm" else place.check()
            for kind, place in self.places(resource_set, encoder).items()
            if kind in kinds
        }


def endpoint_of(job: Job, context: RunContext) -> EmbeddingsEndpoint | None:
    """Return the endpoint that serves the job's encoder, or the encoder of the victim that the job needs.

    None where the encoder is not behind an endpoint.
    """
    spec = job.spec
    if isinstance(spec, FinetuneJob | MeasureJob) and spec.encoder is not None:
        name = job.parts[0]
        return context.encoders[name].endpoint if name in context.encoders else None
    key = job.needs.get("victim")
    return endpoint_of(context.plan.job(key), context) if key is not None else None


def open_victim(inputs: JobInputs, task: TaskSpec, context: RunContext, role: str = "victim") -> Any:
    """Return the victim in a role: the user's classifier, or the victim that a job made.

    By the kind of the task the latter is a classifier, a scorer of pairs or a retriever.
    """
    place = inputs.victim(role)
    existing_classifier = inputs.existing_classifier(role)
    if existing_classifier is not None:
        return open_existing_classifier(inputs, place, existing_classifier, task, context)
    from rbench.encoders import load_victim

    return inputs.network(place, "victim", lambda where: load_victim(Path(where), context.device)[0])


def victim_hash(inputs: JobInputs, role: str = "victim") -> str:
    """Return the hash of a victim's weights for a record. Of the user's classifier it is the planned fingerprint."""
    place = inputs.victim(role)
    return place.fingerprint if inputs.existing_classifier(role) is not None else weights_hash(Path(place.where))


def open_existing_classifier(
    inputs: JobInputs,
    place: FingerprintedPlace,
    classifier: VictimSpec,
    task: TaskSpec,
    context: RunContext,
    *,
    forgiving: bool = False,
) -> Any:
    """Open the user's classifier at a place. Raises JobError if it is no longer the planned one.

    Args:
        forgiving: whether a function or endpoint may leave a few texts without a usable answer; they get the label -1
            (`rbench.victims.remote_classifier.RemoteClassifier`). A model in a folder answers every text.
    """
    if classifier.origin == "model":
        from rbench.victims.model import open_model

        return inputs.network(
            place,
            f"{classifier.model_dump_json()} {task.model_dump_json()}",
            lambda where: open_model(classifier, where, task, context.device),
        )
    from rbench.victims.remote_classifier import RemoteClassifier, open_answers

    inputs.open(place)
    return RemoteClassifier(open_answers(classifier, task), forgiving=forgiving)
