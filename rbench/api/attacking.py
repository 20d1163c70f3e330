"""Attack texts with a classifier that Python has at hand (`rbench.attack`), or a few examples of a task to look at
(`rbench.api.attack`), and give any victim to TextAttack."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rbench import config as loading
from rbench.api.call_options import as_plain_data, resolve_options
from rbench.api.results import AttackResult
from rbench.config.entries import FUNCTION, ChosenAttack, chosen_attack, file_naming_hint
from rbench.config.registry import Registry, search_path
from rbench.errors import JobError, PlanError, RbenchError, StoreError, SuiteError
from rbench.execution.forecast import describe_trainings_ahead
from rbench.execution.given import GivenVictim, QueryOptions, outcome_if_unreadable, read_texts, recognise_victim
from rbench.execution.run import attack_workers, check_device, ran, resolve_device
from rbench.plan.prepare import Options, prepare_loaded
from rbench.schema import AttackSpec, Job, Outcome, ResourceChoice, ResourceSet, TaskSpec
from rbench.score import flag_exchanged_labels
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from rbench.system import scratch
from rbench.system.progress import Progress, SilentProgress, show_progress
from rbench.tables.results import load_plan
from rbench.tasks import Example

if TYPE_CHECKING:
    from rbench.recipes import AttackTask


OutcomeCallback = Callable[[Outcome, int, int], object]

POOLED_IN_MEMORY = 4
"""Examples that are attacked at once, for a network in memory on a CPU."""


def attack_texts(
    victim: Any,
    texts: Iterable[Any],
    labels: Iterable[Any],
    attack: str | Mapping[str, Any] = "textfooler",
    *,
    label_names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    resources: str | Mapping[str, Any] = "standard",
    seed: int = 0,
    scores: Literal["probabilities", "logits"] = "probabilities",
    batch_size: int = 64,
    max_length: int | None = None,
    progress: Progress | bool = True,
    **settings: Any,
) -> AttackResult:
    """Attack texts that a classifier reads, and return what became of each. Nothing is written.

    Args:
        victim: a function from a list of texts to rows of probabilities; `(model, tokenizer)` or a text-classification
            pipeline of transformers; a ModelWrapper of TextAttack; a folder or hub id of a classifier; a folder in
            which rbench saved a victim; "module:function"; the address of an endpoint; the name of a file under
            `victims`; or a mapping with the keys of such a file.
        texts: strings; or tuples, or mappings from column to text, for classifiers of two texts.
        labels: of each text its number in the order of the victim's outputs, or its name.
        attack: a name of `rbench list attacks` or of a TextAttack class, or {name: {option: value}}.
        label_names: the victim's labels, in the order of its outputs; None: as the model states them.
        columns: names of columns; None: `text`, or `text_1` and `text_2`. Attacks leave a `premise` alone if the other
            is a `hypothesis`.
        resources: what stands behind the attack: a name of `rbench list resources`, or {"set": "local", ...}.
        seed: of the attack's random choices.
        scores: what a function returns.
        batch_size: the most texts that a function gets at once.
        max_length: longest input of a model in tokens; None: the longest that it reads.
        progress: as in `rbench.run`.
        settings: device, backend, workers (for a victim in a folder or on the hub), pooled, max_seconds, models and
            include, as in `Options`.

    Raises:
        RbenchError: the victim, a text, a label, an option or a resource is wrong. Nothing was attacked.
        JobError: the attack failed on every example, or the victim failed as a whole.
    """
    options = resolve_options(None, settings, also=inspect.signature(attack_texts).parameters)
    check_settings(settings)
    check_device(options.device)
    given_texts = read_texts(texts, labels, columns)
    registry = Registry(options.include)
    chosen = chosen_attack(plain_choice(attack), registry)
    given_victim = recognise_victim(
        plain_victim(victim), QueryOptions(scores, batch_size, max_length, options.models, registry)
    )
    check_victim(given_victim, chosen, options)
    resource_set, places = locate_resources(resources, chosen.spec, registry, options)
    names = given_victim.names(label_names, given_texts.first)
    request = AttackRequest(given_victim, chosen, given_texts.task(names), seed, resource_set, places, options)
    return request.result(given_texts.examples(names), progress)


@dataclass(frozen=True)
class AttackRequest:
    """One attack on one victim, and how its examples are attacked."""

    victim: GivenVictim
    chosen: ChosenAttack
    task: TaskSpec
    seed: int
    resource_set: ResourceSet
    places: Mapping[Any, Any]
    options: Options

    def result(self, examples: list[Example], progress: Progress | bool) -> AttackResult:
        """Attack the examples, and return their outcomes in their order. Raises JobError where none has one."""
        name, started = f"{self.chosen.label} on {self.victim.name}", time.monotonic()
        with show_progress(progress) as receiver:
            outcomes = _follow_outcomes(self._outcomes(examples), len(examples), name, receiver)
            notes = _exchange_notes(outcomes, self.task)
            for note in notes:
                receiver.note(note)
        _check_outcomes(outcomes)
        order = {example.id: i for i, example in enumerate(examples)}
        return AttackResult(
            victim=self.victim.name,
            attack=self.chosen.label,
            task=self.task,
            seed=self.seed,
            resources=self.resource_set.name,
            outcomes=tuple(sorted(outcomes, key=lambda outcome: order[outcome.example_id])),
            seconds=time.monotonic() - started,
            notes=notes,
        )

    def _outcomes(self, examples: list[Example]) -> Iterator[Outcome]:
        """Yield an outcome for each example, in the order in which they end."""
        from rbench.recipes import check

        check(self.chosen.spec)
        refused = {
            example.id: outcome for example in examples if (outcome := outcome_if_unreadable(example)) is not None
        }
        yield from refused.values()
        examples = [example for example in examples if example.id not in refused]
        if self.victim.locate is not None:
            yield from self._in_processes(examples)
        else:
            yield from self._in_this_process(examples)

    def _in_processes(self, examples: list[Example]) -> Iterator[Outcome]:
        task = self._attack_task()
        with attack_workers(len(examples), self.options, resolve_device(self.options.device)) as workers:
            if workers is not None:
                yield from workers.run(task, examples)

    def _attack_task(self) -> AttackTask:
        from rbench.recipes import AttackTask

        assert self.victim.locate is not None
        module = self.chosen.module
        return AttackTask(
            spec=self.chosen.spec,
            path=None if module is None else module.path,
            task=self.task,
            seed=self.seed,
            victim=self.victim.locate(self.task),
            name=self.victim.name,
            resources=self.resource_set,
            places=tuple(sorted(self.places.items())),
            digest=None if module is None else module.digest,
            foreign=module is not None and not module.bundled,
            given=None if self.victim.given is None else self.victim.given(self.task.labels),
        )

    def _in_this_process(self, examples: list[Example]) -> Iterator[Outcome]:
        """Attack with a victim that only this process has."""
        from rbench.recipes import build, run
        from rbench.words.resources import Resources

        assert self.victim.opened is not None
        device, module = resolve_device(self.options.device), self.chosen.module
        resources = Resources(self.resource_set, places=dict(self.places), device=device, backend=self.options.backend)
        try:
            victim = self.victim.opened(self.task, self.options.backend)
            yield from run(
                lambda: build(
                    self.chosen.spec,
                    victim,
                    resources,
                    self.task,
                    path=None if module is None else module.path,
                    digest=None if module is None else module.digest,
                ),
                examples,
                spec=self.chosen.spec,
                task=self.task,
                seed=self.seed,
                pooled=self.options.pooled or int(getattr(victim, "pooled", None) or POOLED_IN_MEMORY),
                max_seconds=self.options.max_seconds,
            )
        finally:
            self.victim.restore()


def plain_victim(victim: Any) -> Any:
    """Return a victim that is given as a mapping as plain data, others as they are."""
    return as_plain_data(victim) if isinstance(victim, Mapping) else victim


def plain_choice(value: str | Mapping[str, Any]) -> Any:
    """Return a name, or a mapping of a name to its options, as plain data."""
    return value if isinstance(value, str) else as_plain_data(value)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse options of suites, which would do nothing here."""
    used = ("device", "backend", "workers", "pooled", "max_seconds", "models", "include")
    for name in settings:
        if name not in used:
            raise PlanError(f"{name} is an option of suites; here there are {', '.join(used)}")


def check_victim(victim: GivenVictim, chosen: ChosenAttack, options: Options) -> None:
    if chosen.gradients and not victim.gradients:
        raise PlanError(
            f"attack {chosen.label} needs the gradients of a network, and {victim.name} is asked for answers alone. "
            "Give the classifier as (model, tokenizer), or as its folder, or take an attack without gradients, such as "
            "textfooler"
        )
    if options.workers not in (1, None) and victim.locate is None:
        raise PlanError(
            f"workers={options.workers}: {victim.name} is in the memory of this process, and others cannot ask it. "
            "Leave workers out, or save the model and give its folder"
        )


def locate_resources(
    choice: str | Mapping[str, Any], spec: AttackSpec, registry: Registry, options: Options
) -> tuple[ResourceSet, dict[Any, Any]]:
    """Return the resources that the attack needs, and where they are. Raises ResourceError for what is missing."""
    from rbench import config
    from rbench.words import resources

    resource_choice = ResourceChoice.model_validate(plain_choice(choice))
    resource_set = config.load_resources(resource_choice, registry)
    lm = resource_set.masked_lm
    if "masked_lm" in spec.needs and lm is not None and lm.kind == "encoder":
        raise PlanError(
            f"attack {spec.name} needs a masked LM, and that of the resources {resource_set.name} is one that a run "
            f"trains ({lm.name}). Name another: resources={{'set': '{resource_set.name}', 'masked_lm': FOLDER_OR_ID}}"
        )
    return resource_set, resources.locate(resource_set, {kind: [spec.name] for kind in spec.needs}, options.models)


def _follow_outcomes(stream: Iterator[Outcome], total: int, name: str, progress: Progress) -> list[Outcome]:
    """Collect the outcomes, and report them as they come."""
    outcomes: list[Outcome] = []
    hit = missed = 0
    progress.start(name, 1, 1)
    for outcome in stream:
        outcomes.append(outcome)
        hit, missed = hit + (outcome.status == "succeeded"), missed + (outcome.status == "failed")
        text = f"ASR {100 * hit / (hit + missed):.0f}% of {hit + missed}" if hit + missed else ""
        progress.update(len(outcomes), total, text)
    progress.finish("complete")
    return outcomes


def _exchange_notes(outcomes: Sequence[Outcome], task: TaskSpec) -> tuple[str, ...]:
    """Return what a reader of the result must know: that labels may be exchanged."""
    if not task.labels:
        return ()
    known = [
        (outcome.original_prediction, outcome.label)
        for outcome in outcomes
        if outcome.original_prediction is not None and outcome.label is not None
    ]
    exchange = flag_exchanged_labels(
        [prediction for prediction, _ in known], [label for _, label in known], task.labels
    )
    return () if exchange is None else (f"{exchange.flag}? {exchange.because}, and at `label_names`",)


def _check_outcomes(outcomes: Sequence[Outcome]) -> None:
    if all(outcome.status == "errored" for outcome in outcomes):
        error = (outcomes[0].error or "no error was recorded").strip()
        raise JobError(f"the attack failed on every example; on the first:\n{error}")


_PLACEHOLDER = "a"


def textattack_wrapper(
    victim: Any,
    *,
    run: str | os.PathLike[str] | None = None,
    task: str | None = None,
    seed: int | None = None,
    label_names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    max_length: int | None = None,
    device: str = "auto",
    backend: str = "auto",
    models: Sequence[str | os.PathLike[str]] = (),
) -> Any:
    """Return a victim as a `textattack.models.wrappers.ModelWrapper`: texts in, a tensor of logits (n, labels) out.

    >>> wrapper = rbench.textattack_wrapper("simcse-mini-packaged", run="results/runs/quickstart", task="mini-nli")
    >>> textattack.attack_recipes.TextFoolerJin2019.build(wrapper)

    Each distinct text is computed once. A function or an endpoint gives probabilities, as TextAttack accepts too.

    Args:
        victim: anything that `rbench.attack` takes; with `run` the name of an encoder there, as its tables have it
            (`rbench.load_results`), or of a classifier under `victims`.
        run: the RUN whose victim is meant.
        task: the task that it was fine-tuned on; None: the only one.
        seed: its seed; None: the lowest.
        label_names: names of the labels, where the victim states none.
        columns: names of the texts' columns; None: one column.
        max_length: longest input of a model in tokens; None: the longest that it reads.
        device: `auto`, `cpu` or `cuda`.
        backend: what computes the network, as in `Options`.
        models: folders that are searched for the victim, before those of RBENCH_MODELS.

    Raises:
        RbenchError: there is no such victim, its weights are no longer in the cache, or several are meant.
    """
    check_device(device)
    meant_victim = _victim_of_run(Path(run), str(victim), task, seed) if run is not None else victim
    how = QueryOptions(max_length=max_length, models=search_path(map(Path, models), "RBENCH_MODELS"))
    given = recognise_victim(plain_victim(meant_victim), how)
    texts = read_texts([tuple([_PLACEHOLDER] * len(columns or ("text",)))], [0], columns)
    return open_given(given, texts.task(given.names(label_names, texts.first)), device, backend)


def open_given(given: GivenVictim, task: TaskSpec, device: str, backend: str) -> Any:
    """Open a victim in this process: a ModelWrapper of TextAttack, which gives logits or probabilities (n, labels)."""
    from rbench.recipes.engine import EngineConfig, open_victim

    if given.locate is None:
        assert given.opened is not None
        return given.opened(task, backend)
    config = EngineConfig(resolve_device(device), backend, backends_file=default_cache() / "backends.json")
    victim_spec = None if given.given is None else given.given(task.labels)
    return open_victim(victim_spec, given.locate(task).where, task, given.name, config)


def _victim_of_run(run: Path, name: str, task: str | None, seed: int | None) -> Any:
    """Return the folder of a victim that a run fine-tuned, or the classifier that it opened."""
    plan = load_plan(RunStore(run))
    victims = [job for job in plan.jobs if job.victim is not None]
    meant = [job for job in victims if name in (job.parts[0], "/".join(job.parts), job.name)]
    meant = [job for job in meant if task in (None, _task_name(job)) and seed in (None, job.seed)]
    if seed is None:
        meant = [job for job in meant if job.seed == min(job.seed for job in meant)]
    if len(meant) != 1:
        names = ", ".join(job.name for job in meant or victims)
        raise StoreError(
            f"{run}: {name} is not the name of one victim of this task and seed, but of {len(meant)}: {names}"
        )
    (job,) = meant
    return job.opening.victim if job.opening is not None else WeightCache(default_cache()).folder(job.key)


def _task_name(job: Job) -> str:
    assert job.victim is not None
    return job.victim.task.name


VictimEntry = str | Mapping[str, Any]
"""An entry under `victims` of a suite."""


def classifier(where: str, labels: str | None, registry: Registry) -> VictimEntry:
    """Return what a suite has under `victims` for a classifier of the command line.

    Args:
        where: a folder, a hub id, `module:function`, an address, a file of the kind `victims` by name, or such a file's
            path.
        labels: `theirs=ours,...`, what the classifier's labels mean; None: they are matched by name.

    Raises:
        SuiteError: `labels` has another form, or goes with a file, which says what its labels mean; or a function is
            named by its file.
    """
    if (by_file := file_naming_hint(where)) is not None:
        raise SuiteError(f"--classifier {by_file}")
    file = where in registry.names("victims") or where.endswith((".yaml", ".yml"))
    if file and labels is not None:
        raise SuiteError(f"--label-map: {where} is a victim's file; write `labels:` there")
    if file:
        return where
    entry: dict[str, Any] = {"model": where}
    if where.startswith(("http://", "https://")):
        entry = {"endpoint": {"url": where}, "version": "command line"}
    elif FUNCTION.fullmatch(where) and not Path(where).exists():
        entry = {"function": where, "version": "command line"}
    return {**entry, **({"labels": _parse_label_map(labels)} if labels is not None else {})}


def _parse_label_map(labels: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in labels.split(",")]
    wrong = [
        part for part, (theirs, equals, ours) in zip(labels.split(","), pairs, strict=True) if not (theirs and ours)
    ]
    if wrong:
        raise SuiteError(f"--label-map {labels}: expected THEIRS=OURS,..., such as LABEL_0=negative,LABEL_1=positive")
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}


def attack(
    encoder: str | None,
    task: str | Mapping[str, Any],
    attack: str,
    n: int = 5,
    options: Options | None = None,
    *,
    classifier: VictimEntry | None = None,
    progress: Progress | None = None,
    seen: OutcomeCallback | None = None,
) -> Iterator[Outcome]:
    """Fine-tune (or take from the cache) one victim, attack `n` examples, and yield their outcomes.

    `task` is written as in a suite: a name, the path of a table, or `{"my.csv": {"text": "review", "label": "stars"}}`.
    `encoder` is a name of the registry, a folder (`./mine`, or its path), or a hub id (`OWNER/NAME`). With `classifier`
    in its place, which is an entry under `victims` of a suite, nothing is fine-tuned. What is trained first, and about
    how long that takes, is a note of `progress`. `seen` is called once with each outcome, soon after the attack on its
    example has ended, with its number from 1 in the order in which they end, and with how many there will be.

    A classifier is asked for the texts that are attacked, and for nothing else than the fixed texts by which rbench
    tells functions and endpoints apart; how often it is right, only a suite measures.

    The outcomes go to a folder that is deleted afterwards; use a suite to keep results.
    """
    options = options or Options()
    check_device(options.device)
    registry = Registry(options.include)
    victims: dict[str, Any] = {"victims": [classifier]} if classifier is not None else {"encoders": [encoder]}
    suite = {"name": "attack", **victims, "tasks": [task], "attacks": [attack], "num_examples": n}
    if isinstance(task, str) and task.startswith("mini-"):
        suite["resources"] = "mini"
    loaded = loading.load_mapping(
        as_plain_data(suite), registry=registry, overrides=options.overrides, origin="rbench attack"
    )
    loaded = dataclasses.replace(loaded.without_implied(), attacked_only=True)
    with scratch.temporary_folder("attack") as folder:
        prepared = prepare_loaded(loaded, dataclasses.replace(options, out=folder))
        cache = WeightCache(default_cache())
        if progress is not None and (note := describe_trainings_ahead(prepared, cache)) is not None:
            progress.note(note)
        store, job = RunStore(folder), prepared.plan.jobs[-1]
        outcome_progress = OutcomeProgress(
            progress or SilentProgress(), lambda: store.outcomes(job), seen or (lambda *ended: None), n
        )
        with ran(
            prepared, options, outcome_progress
        ) as run_outcome:  # without tables and figures, which nobody would see
            outcome_progress.report_new()
        outcomes = store.outcomes(job)
        if (
            run_outcome.failed and len(outcomes) < n
        ):  # a job that failed because examples errored still has all outcomes
            raise RbenchError(run_outcome.failed[0].error or f"{run_outcome.failed[0].job.name} failed")
        if progress is not None and job.attacking is not None:
            for note in _exchange_notes(outcomes, loaded.tasks[job.attacking.task.name]):
                progress.note(note)
        yield from outcomes


class OutcomeProgress:
    """A `Progress` that looks for new outcomes when it is told of progress, not more than once a second.

    Args:
        progress: gets all calls.
        outcomes: reads all outcomes that there are.
        seen: gets each outcome once, see `attack`.
        total: how many there will be, unless updates say otherwise.
    """

    def __init__(
        self, progress: Progress, outcomes: Callable[[], Iterable[Outcome]], seen: OutcomeCallback, total: int
    ) -> None:
        self.start, self.note, self.finish = progress.start, progress.note, progress.finish
        self._update, self._outcomes, self._seen, self._total = progress.update, outcomes, seen, total
        self._told: set[str] = set()
        self._looked = -math.inf

    def update(self, done: int, total: int, text: str = "") -> None:
        self._update(done, total, text)
        self._total = total
        if time.monotonic() - self._looked >= 1:
            self.report_new()

    def report_new(self) -> None:
        """Hand on the outcomes that have come since the last call."""
        for outcome in self._outcomes():
            if outcome.example_id not in self._told:
                self._told.add(outcome.example_id)
                self._seen(outcome, len(self._told), self._total)
        self._looked = time.monotonic()
