"""Makes a Plan from a suite, without side effects: the jobs, their order, and which jobs each needs.

The plan is computed from specs and fingerprints that are passed in (`PlanInputs`), so planning loads no data and no
model. A job's key is the hash of everything that decides its outcome. So the same suite on the same data and weights
gives the same keys on any machine. A resumed run does the jobs whose keys the store does not have.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rbench.errors import PlanError
from rbench.plan.lineage import (
    as_loaded,
    as_trained,
    find_trained_root,
    find_weights_source,
    portable_encoder,
    portable_victim,
    registered_base,
)
from rbench.plan.order import add_needed
from rbench.schema import (
    AS_IS,
    CLEAN,
    CONTRAST,
    IN_DOMAIN,
    STS,
    AdversarialSet,
    AskedSet,
    AttackJob,
    Choice,
    Draw,
    FinetuneJob,
    Job,
    MeasureJob,
    MeasureNeeds,
    Plan,
    PretrainJob,
    ResourceSet,
    Specs,
    StrategyNeeds,
    Suite,
    TaskSpec,
    Training,
    TrainSpec,
    VictimJob,
)
from rbench.schema.jobs import AnyJob, content_key, split_of


@dataclass(frozen=True)
class CodeVersions:
    """What a job's key holds of the code behind the job."""

    source: str = ""
    """Content hash of a module that a user added; empty for rbench's own."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """VERSIONs of the files of rbench that are used, by name."""


@dataclass(frozen=True, kw_only=True)
class PlanInputs(Specs):
    """The inputs of a plan: what a suite names, and content hashes of data, weights and resources."""

    data: Mapping[str, str]
    """Content hash by task or corpus name."""
    sizes: Mapping[str, Mapping[str, int]]
    """Rows by task and split."""
    read: Mapping[str, int] = field(default_factory=dict)
    """Rows of test splits as they were read, before any was left out, by task."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Content hash by encoder name, for weights that no job makes. It also holds the names in `models`."""
    splits: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Content hash by task and split, for jobs that use only that split of the task."""
    resource_weights: Mapping[str, str] = field(default_factory=dict)
    """Content hash by resource kind, for resources that no job makes."""
    training: Mapping[str, tuple[ResourceSet, Mapping[str, str]]] = field(default_factory=dict)
    """By encoder: the resource set that its objective uses, and content hashes of those resources by kind."""
    victim_fingerprints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Content hash of each classifier that exists, by name and task."""
    code: Mapping[str, CodeVersions] = field(default_factory=dict)
    """The code behind modules, by kind and name (`objectives/simcse`), and behind parts of jobs (`pretrain`)."""
    attacked_only: bool = False
    """Whether classifiers that exist are opened without being scored."""


def selection_fingerprint(train: TrainSpec, splits: Mapping[tuple[str, str], str]) -> str | None:
    """Return one fingerprint of the splits that training steps are selected by, or None where there are none.

    `splits` holds fingerprints by task and split.
    """
    fingerprints = [splits[task, train.scored_split(task)] for task in train.selection_tasks]
    return content_key({"selected_by": fingerprints}) if len(fingerprints) > 1 else next(iter(fingerprints), None)


def training_for(suite: Suite, task: TaskSpec, strategy: Mapping[str, Any] | None = None) -> Training:
    """Return the training settings of a task.

    Later ones win: the task's defaults, the suite's for all tasks, the suite's for this task, the strategy's.
    """
    suite_settings = suite.training_for(task.name)
    return Training.model_validate({**task.training.model_dump(), **suite_settings, **(strategy or {})})


def make_plan(suite: Suite, inputs: PlanInputs) -> Plan:
    """Make all jobs of `suite`, victim by victim, so that a table has its first rows after the first victim.

    Evaluations of encoders come first, because they are quick. Then, for each seed, task and encoder, come the things
    built from the encoder, and each victim directly followed by its contrast sets and attacks. A job that others need
    (for example a pretraining) stands directly before the first of them. With `train_seeds` all of this is done for the
    first training seed, then for the next, so that a table of one training is whole before another training begins.

    Raises PlanError where test splits have fewer rows than `num_examples`. The error names all such splits.
    """
    _check_sizes(suite, inputs)
    planner = _Planner(suite, inputs)
    jobs: dict[str, Job] = {}
    # The encoders by label for each training seed. One that is not drawn is in the first round alone.
    labels_by_encoder = _labels_of(suite, inputs.draws)
    rounds = [
        [labels[i] for labels in labels_by_encoder if i < len(labels)] for i in range(max(1, len(suite.train_seeds)))
    ]
    for encoders in rounds:
        round_jobs = [job for encoder in encoders for job in planner.untuned_jobs(encoder)]
        existing = suite.victims if encoders is rounds[0] else ()
        for seed, task in itertools.product(suite.seeds, suite.tasks):
            for encoder in encoders:
                round_jobs += planner.cell(encoder, task, seed)
            for victim in existing:
                round_jobs += planner.jobs_on_victim(
                    planner.existing(victim, task, seed), (victim, task, Choice(name=AS_IS)), seed
                )
        round_jobs += planner.measured(encoders)
        jobs |= {job.key: job for job in round_jobs if job.key not in jobs}
    return Plan(suite=suite, jobs=add_needed(jobs.values(), planner.made), draws=dict(inputs.draws))


class _Planner:
    """Makes the jobs that a suite asks for, and remembers them, so that each exists once."""

    def __init__(self, suite: Suite, inputs: PlanInputs) -> None:
        self.suite, self.inputs = suite, inputs
        self.made: dict[str, Job] = {}

    def cell(self, encoder: str, task: str, seed: int) -> list[Job]:
        """Return what is built of an encoder, and its victims' measures and attacks, in the order of the plan."""
        suite = self.suite
        jobs = []
        for label in (choice.label for choice in suite.build):
            pretraining = self.pretrain_job(encoder, task)
            assert pretraining is not None  # loading has checked that a job trains the encoder
            # It needs again what the training needed, for example the masked LM.
            needed = {"encoder": pretraining, **{role: self.made[key] for role, key in pretraining.needs.items()}}
            needs, parts = self.inputs.building[label], (encoder, task, label)
            jobs.append(self._measure(needs, parts, task, needed, seed, encoders=(encoder,)))
        for strategy in self._strategies(encoder, task):
            victim = self.finetune(encoder, task, strategy, seed)
            jobs += self.jobs_on_victim(victim, (encoder, task, strategy), seed)
        return jobs

    def jobs_on_victim(self, victim: Job, name_task_strategy: tuple[str, str, Choice], seed: int) -> list[Job]:
        """Return the measures and attacks of one victim."""
        suite = self.suite
        jobs = self._measures_of_victim(victim, *name_task_strategy, seed)
        jobs += [self.attack(victim, *name_task_strategy, attack.label, seed) for attack in suite.attacks]
        if not suite.attacks and not suite.build and not self.inputs.measures:
            jobs.append(victim)
        return jobs

    def _strategies(self, encoder: str, task: str) -> list[Choice]:
        """Return the strategies with which the suite fine-tunes an encoder, or one draw of it, on a task."""
        registered = self.inputs.draws.get(encoder, Draw(encoder=encoder)).encoder
        strategies = self.inputs.tuning.get(task, self.suite.finetune)
        return [strategy.choice for strategy in strategies if strategy.serves(registered)]

    def existing(self, name: str, task: str, seed: int) -> Job:
        """Return the job that opens a classifier that exists, in the place of a fine-tuning."""
        inputs, spec = self.inputs, self.inputs.victims[name]
        parted = "parts" if inputs.tasks[task].parts else None
        scored = training_for(self.suite, inputs.tasks[task]).max_validation
        job = VictimJob(
            victim=portable_victim(spec),
            victim_fingerprint=inputs.victim_fingerprints[name, task],
            task=inputs.tasks[task],
            data_fingerprint=inputs.data[task],
            max_validation=0 if inputs.attacked_only else scored,
            versions=self._merge_code("open model" if spec.origin == "model" else "open answers", parted)["versions"],
        )
        return self._add_job(job, (name, task, AS_IS), {}, seed)

    def _victim(self, name: str, task: str, strategy: Choice, seed: int) -> Job:
        """Return the job that makes or opens a victim."""
        exists = name in self.inputs.victims and strategy.name == AS_IS
        return self.existing(name, task, seed) if exists else self.finetune(name, task, strategy, seed)

    def pretrain_job(self, name: str, task: str | None = None) -> Job | None:
        """Return the job that makes the weights of encoder `name`, or None where no job makes them.

        Args:
            task: the task that the encoder will be fine-tuned on. An in-domain encoder trains on its training texts.

        Raises PlanError where an in-domain encoder has no task.
        """
        root = find_trained_root(name, self.inputs.encoders)
        if root is None:
            return None
        inputs, spec = self.inputs, self.inputs.encoders[root]
        in_domain = spec.train is not None and spec.train.data == IN_DOMAIN
        spec = as_trained(spec, inputs.encoders, task)
        assert spec.train is not None
        data = inputs.splits[spec.train.data, "train"] if in_domain else inputs.data[spec.train.data]
        base = registered_base(spec, inputs.encoders)
        needed = {"base": self.pretrain_job(base, task) if base is not None else None}
        fingerprints = {}
        for option, model in inputs.models.get(root, {}).items():
            model_job = self.pretrain_job(model, task) if model in inputs.encoders else None
            needed[f"options.{option}"] = model_job
            if model_job is None:
                fingerprints[option] = inputs.weights[model]
        resource_set, hashes = inputs.training.get(root, (None, {}))
        needed["masked_lm"] = self._masked_lm_job(resource_set, task)
        selection = "selection" if spec.train.selection_tasks else None
        code_names = (selection, self._opened(root), *(resource_set.sources if resource_set is not None else ()))
        job = PretrainJob(
            encoder=portable_encoder(spec, inputs.models.get(root, ())),
            base_fingerprint=inputs.weights.get(root),
            data_fingerprint=data,
            selection_fingerprint=selection_fingerprint(spec.train, inputs.splits),
            model_fingerprints=fingerprints,
            resources=resource_set,
            resource_fingerprints=dict(hashes),
            **self._merge_code("pretrain", f"objectives/{spec.train.objective}", *code_names),
        )
        parts = (root, spec.train.data) if in_domain else (root,)
        return self._add_job(job, parts, needed, spec.train.seed)

    def _masked_lm_job(self, resource_set: ResourceSet | None, task: str | None = None) -> Job | None:
        """Return the job that trains the masked LM of a resource set, or None where no job trains it."""
        lm = resource_set.masked_lm if resource_set is not None else None
        return self.pretrain_job(lm.name, task) if lm is not None and lm.kind == "encoder" and lm.name else None

    def untuned_jobs(self, encoder: str) -> list[Job]:
        """Return the jobs that measure one encoder without fine-tuning it, its similarity scores first."""
        measures = [measure for measure in self.inputs.measures.values() if measure.of == "encoders"]
        jobs = []
        for evaluation in self.suite.evaluations:
            what = Choice(name=STS, options={"split": evaluation.split})
            needs = MeasureNeeds(what=what, of="encoders", unscaled=True, tasks={evaluation.task: what})
            jobs.append(self._of_encoder(needs, (encoder, evaluation.label), evaluation.task))
        return jobs + [
            self._of_encoder(measure, (encoder, measure.label, task), task)
            for measure in measures
            for task in measure.tasks
        ]

    def _of_encoder(self, needs: MeasureNeeds, parts: tuple[str, ...], task: str) -> Job:
        """Return the job of a measure that reads one encoder, the first of `parts`, and one task. Its seed is 0."""
        encoder = parts[0]
        pretraining = self.pretrain_job(encoder)
        resource_set = self.inputs.resources.only(needs.resources) if needs.resources else None
        return self._measure(
            needs.model_copy(update={"what": needs.tasks[task]}),
            parts,
            task,
            {"encoder": pretraining, "masked_lm": self._masked_lm_job(resource_set)},
            0,
            self._merge_code(self._opened(encoder), *needs.resources)["versions"],
            encoder=portable_encoder(as_loaded(encoder, self.inputs.encoders)),
            encoder_fingerprint=None if pretraining else self.inputs.weights[encoder],
            resources=resource_set,
            resource_fingerprints=self._hashes(resource_set),
        )

    def finetune(self, encoder: str, task: str, strategy: Choice, seed: int) -> Job:
        """Return the job that makes a victim: encoder and head, fine-tuned on the task with one strategy and seed."""
        pretraining, label = self.pretrain_job(encoder, task), strategy.label
        strategy = strategy.on(task)
        strategy_needs = self.inputs.strategies.get(strategy.label, StrategyNeeds())
        resource_set = self.inputs.resources.only(strategy_needs.resources) if strategy_needs.resources else None
        # The clean victim that a strategy's attack needs takes the strategy's training options. It may be in no suite.
        overrides = strategy_needs.training if strategy.label in self.inputs.strategies else strategy.options
        training = training_for(self.suite, self.inputs.tasks[task], overrides)
        needed = {"encoder": pretraining, "masked_lm": self._masked_lm_job(resource_set, task)}
        if strategy_needs.attack is not None:
            clean_strategy = Choice(name=CLEAN, options=dict(overrides))
            victim = self.finetune(encoder, task, clean_strategy, seed)
            n = training.train_rows(self.inputs.sizes[task]["train"])
            needed["attack"] = self.attack(victim, encoder, task, clean_strategy, strategy_needs.attack, seed, n)
        code_names = (
            self._opened(encoder),
            *strategy_needs.resources,
            "parts" if self.inputs.tasks[task].parts else None,
        )
        job = FinetuneJob(
            encoder=portable_encoder(as_loaded(encoder, self.inputs.encoders)),
            encoder_fingerprint=None if pretraining else self.inputs.weights[encoder],
            strategy=strategy,
            task=self.inputs.tasks[task],
            data_fingerprint=self.inputs.data[task],
            training=training,
            resources=resource_set,
            resource_fingerprints=self._hashes(resource_set),
            **self._merge_code("finetune", f"finetune/{strategy.name}", *code_names),
        )
        return self._add_job(job, (encoder, task, label), needed, seed)

    def attack(
        self,
        victim: Job,
        encoder: str,
        task: str,
        strategy: Choice,
        attack: str,
        seed: int,
        training_texts: int | None = None,
    ) -> Job:
        """Return the job that attacks one victim.

        With `training_texts`, it attacks that many of the victim's training texts instead of test texts.
        """
        spec, inputs = self.inputs.attacks[attack], self.inputs
        wanted = self.suite.examples_for(task)
        resource_set, family = inputs.resources.only(spec.needs), inputs.tasks[task].of_kind.family
        n = inputs.sizes[task]["test"] if wanted == "all" else wanted
        masked = "masked recipe" if "masked_lm" in spec.needs else None
        code_names = (f"attacks/{spec.name}",) if spec.recipe is None else ("recipe", masked)
        oracle = "oracle" if inputs.tasks[task].has_oracle else None
        job = AttackJob(
            encoder=self._name_in_keys(encoder),
            strategy=strategy.on(task),
            task=inputs.tasks[task],
            data_fingerprint=inputs.data[task],
            attack=spec,
            resources=resource_set,
            resource_fingerprints=self._hashes(resource_set),
            num_examples=n if training_texts is None else training_texts,
            split="test" if training_texts is None else "train",
            versions=self._merge_code("attack", *code_names, *spec.needs, oracle, family)["versions"],
        )
        parts = (encoder, task, strategy.label, attack, *(("train",) if training_texts is not None else ()))
        return self._add_job(job, parts, {"victim": victim, "masked_lm": self._masked_lm_job(resource_set, task)}, seed)

    def _measures_of_victim(self, victim: Job, encoder: str, task: str, strategy: Choice, seed: int) -> list[Job]:
        """Return the jobs that measure one victim: on the sets of its task, and on the task's rows.

        A set that the plan makes needs the attack on its own victim, with the set's seed.
        """
        jobs, parts = [], (encoder, task, strategy.label)
        common_fields: dict[str, Any] = {"encoders": (self._name_in_keys(encoder),), "strategies": (strategy.on(task),)}
        for asked_set in self.inputs.sets.get(task, ()):
            needed = {"victim": victim}
            if asked_set.made and isinstance(asked_set.set, AdversarialSet):
                set_spec, set_strategy = asked_set.set, asked_set.strategy or Choice(name=CLEAN)
                set_victim = self._victim(set_spec.encoder, task, set_strategy, set_spec.seed)
                needed["attack"] = self.attack(
                    set_victim, set_spec.encoder, task, set_strategy, set_spec.attack, set_spec.seed
                )
            fields = (
                common_fields
                | {"set": asked_set.set}
                | ({"data_fingerprint": asked_set.fingerprint} if asked_set.fingerprint else {})
            )
            jobs.append(self._measure(asked_set.needs, (*parts, asked_set.set.name), task, needed, seed, **fields))
        for label, needs in self.inputs.measures.items():
            is_passed_over = needs.classes and not self.inputs.tasks[task].labels
            contrast = self._contrast_of(task) if needs.contrast else None
            is_passed_over |= needs.contrast and contrast is None
            if (
                needs.of == "victims"
                and not is_passed_over
                and (not needs.implied or self._is_scored_unasked(victim, task))
            ):
                fields = common_fields if contrast is None else common_fields | self._reading(contrast)
                jobs.append(self._measure(needs, (*parts, label), task, {"victim": victim}, seed, **fields))
        return jobs

    def _is_scored_unasked(self, victim: Job, task: str) -> bool:
        """Whether a victim is scored on test rows though the suite does not ask for it: a classifier whose network runs
        here. The answers of functions and endpoints may cost money."""
        spec, rows = self.inputs.tasks[task], self.inputs.sizes[task].get("test", 0)
        if not spec.has_classes or not rows:
            return False
        if victim.opening is not None:
            return victim.opening.victim.origin == "model"
        return self._opened(victim.parts[0]) != "remote encoder"

    def measured(self, encoders: Sequence[str]) -> list[Job]:
        """Return the jobs of the suite's measures on one round of encoders, once these are attacked.

        Encoders that are not drawn stand beside the drawn ones in every round. Measures of attacks compare classifiers,
        so tasks without labels have none.
        """
        jobs = []
        encoders_of_round = [
            next((label for label in labels if label in encoders), labels[0])
            for labels in _labels_of(self.suite, self.inputs.draws)
            if len(labels) == 1 or {*labels} & {*encoders}
        ]
        measures = [(label, needs) for label, needs in self.inputs.measures.items() if needs.of in ("attacks", "tasks")]
        for label, needs in measures:
            for seed, task in itertools.product(self.suite.seeds if needs.of == "attacks" else (0,), self.suite.tasks):
                if needs.of == "tasks":
                    jobs.append(self._measure(needs, (label, task), task, {}, seed))
                elif self.inputs.tasks[task].labels:
                    jobs += [
                        self._asked_of(needs, label, task, attack.label, encoders_of_round, seed)
                        for attack in self.suite.attacks
                    ]
        return jobs

    def _asked_of(
        self, needs: MeasureNeeds, label: str, task: str, attack: str, encoders: Sequence[str], seed: int
    ) -> Job:
        """Return the job of a measure that reads all victims of `encoders` and what one attack made of them."""
        needed: dict[str, Job | None] = {}
        tuned = [(encoder, strategy) for encoder in encoders for strategy in self._strategies(encoder, task)]
        existing = [(name, Choice(name=AS_IS)) for name in self.suite.victims]
        for encoder, strategy in (*tuned, *existing):
            victim = self._victim(encoder, task, strategy, seed)
            needed[MeasureJob.role("victim", encoder, strategy.label)] = victim
            needed[MeasureJob.role("attack", encoder, strategy.label)] = self.attack(
                victim, encoder, task, strategy, attack, seed
            )
        draws = self.inputs.draws
        seeds = {draws[encoder].train_seed for encoder in encoders if encoder in draws}
        parts = (label, task, attack, *(f"train_seed={train_seed}" for train_seed in seeds))
        fields: dict[str, Any] = {
            "attack": attack,
            "encoders": tuple(encoders),
            "strategies": tuple({strategy.label: strategy for _, strategy in tuned}.values()),
            "existing": self.suite.victims,
        }
        if needs.contrast and (contrast := self._contrast_of(task)) is not None:
            fields |= self._reading(contrast)
        if not needs.resources:
            return self._measure(needs, parts, task, needed, seed, **fields)
        resource_set = self.inputs.resources.only(needs.resources)
        fields |= {"resources": resource_set, "resource_fingerprints": self._hashes(resource_set)}
        versions = self._merge_code(*needs.resources)["versions"]
        return self._measure(needs, parts, task, needed, seed, versions, **fields)

    @staticmethod
    def _reading(asked: AskedSet) -> dict[str, Any]:
        """Return the fields of a job that say which set it reads."""
        return {"set": asked.set, **({"data_fingerprint": asked.fingerprint} if asked.fingerprint else {})}

    def _contrast_of(self, task: str) -> AskedSet | None:
        """Return the first contrast set of a task that the suite asks for."""
        return next((one for one in self.inputs.sets.get(task, ()) if one.needs.what.name == CONTRAST), None)

    def _measure(
        self,
        needs: MeasureNeeds,
        parts: tuple[str, ...],
        task: str,
        needed: Mapping[str, Job | None],
        seed: int,
        further: Mapping[str, int] | None = None,
        **more: Any,
    ) -> Job:
        """Return a job of a measure. `further`: VERSIONs of code that it uses besides the measure's own."""
        what, inputs = needs.what, self.inputs
        answers_code = "asked" if needs.of in ("attacks", "victims") else None
        code = self._merge_code("measured", answers_code, f"measures/{what.name}", *needs.files)
        split = split_of(what)
        fields = {"data_fingerprint": inputs.data[task] if split is None else inputs.splits[task, split]}
        job = MeasureJob(
            what=what,
            of=needs.of,
            stores=needs.stores,
            task=inputs.tasks[task].model_copy(update={"scale": None}) if needs.unscaled else inputs.tasks[task],
            source=code["source"],
            versions={**(further or {}), **code["versions"]},
            **(fields | more),
        )
        return self._add_job(job, parts, needed, seed)

    def _add_job(self, spec: AnyJob, parts: tuple[str, ...], needed: Mapping[str, Job | None], seed: int) -> Job:
        """Make a job, or return it if it was made before. Roles in `needed` without a job are left out."""
        needs = {role: below.key for role, below in needed.items() if below is not None}
        job = Job.make(spec, parts, needs, seed)
        # By key, and not by name: two suite entries that ask for the same work share one job.
        return self.made.setdefault(job.key, job)

    def _merge_code(self, *names: str | None) -> dict[str, Any]:
        """Merge the code under `names` into what a job holds: `versions` above 1, and the `source` that a user added.

        Names are those of modules and the entries of `versions.PARTS`.
        """
        code = [self.inputs.code[name] for name in names if name is not None and name in self.inputs.code]
        versions = {name: version for used in code for name, version in used.versions.items() if version > 1}
        return {"source": "".join(used.source for used in code), "versions": versions}

    def _name_in_keys(self, encoder: str) -> str:
        """Return the name of an encoder that enters keys. Of one without a file it is not the label: see `portable`."""
        return encoder if encoder in self.inputs.victims else portable_encoder(self.inputs.encoders[encoder]).name

    def _opened(self, encoder: str) -> str | None:
        """Return the name in `versions.PARTS` of the code that makes the encoder's weights: a table of word vectors,
        random numbers, or an endpoint that is asked. Return None for weights that are read."""
        source = find_weights_source(encoder, self.inputs.encoders)
        if source is None:
            return None
        if source.endpoint is not None:
            return "remote encoder"
        if source.random_weights:
            return "random encoder"
        return "static encoder" if source.word_vectors else None

    def _hashes(self, resource_set: ResourceSet | None) -> dict[str, str]:
        """Return the content hashes of a resource set's resources, for those that no job makes."""
        kinds = resource_set.sources if resource_set is not None else {}
        return {kind: value for kind, value in sorted(self.inputs.resource_weights.items()) if kind in kinds}


def _labels_of(suite: Suite, draws: Mapping[str, Draw]) -> list[list[str]]:
    """Return the labels of each encoder of the suite, one for each training seed where it is drawn."""
    return [
        [label for label, draw in draws.items() if draw.encoder == encoder] or [encoder] for encoder in suite.encoders
    ]


def _check_sizes(suite: Suite, inputs: PlanInputs) -> None:
    """Raise PlanError where a test split has fewer rows than the suite attacks."""
    problems = []
    makes_sets = any(asked_set.made for sets in inputs.sets.values() for asked_set in sets)
    for task in suite.tasks if suite.attacks or makes_sets else ():
        wanted, size = suite.examples_for(task), inputs.sizes[task].get("test", 0)
        if wanted != "all" and wanted > size:
            left = inputs.read.get(task, 0) - size
            why = f" ({left} of its {size + left} rows were left out: their text or label is none)" if left > 0 else ""
            problems.append(f"{task}: num_examples is {wanted}, but its test split has {size} examples{why}")
    if problems:
        raise PlanError(
            "; ".join(problems)
            + ". Give a smaller number, `all`, or a map by task (num_examples: {mr: 100, default: 1000})."
        )
