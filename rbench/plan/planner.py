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
    as_trained,
    effective,
    portable,
    portable_victim,
    registered_base,
    trained_root,
    weights_source,
)
from rbench.plan.order import with_needs
from rbench.schema import (
    AS_IS,
    CLEAN,
    IN_DOMAIN,
    STS,
    AdversarialSet,
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
class Code:
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
    code: Mapping[str, Code] = field(default_factory=dict)
    """The code behind modules, by kind and name (`objectives/simcse`), and behind parts of jobs (`pretrain`)."""


def selected_by(train: TrainSpec, splits: Mapping[tuple[str, str], str]) -> str | None:
    """Return one fingerprint of the splits that training steps are selected by, or None where there are none.

    `splits` holds fingerprints by task and split.
    """
    found = [splits[task, train.scored_split(task)] for task in train.selecting]
    return content_key({"selected_by": found}) if len(found) > 1 else next(iter(found), None)


def training_for(suite: Suite, task: TaskSpec, strategy: Mapping[str, Any] | None = None) -> Training:
    """Return the training settings of a task.

    Later ones win: the task's defaults, the suite's for all tasks, the suite's for this task, the strategy's.
    """
    own = suite.training_for(task.name)
    return Training.model_validate({**task.training.model_dump(), **own, **(strategy or {})})


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
    of = _labels_of(suite, inputs.draws)
    first, *_ = every = [[own[i] for own in of if i < len(own)] for i in range(max(1, len(suite.train_seeds)))]
    for encoders in every:
        asked = [job for encoder in encoders for job in planner.as_it_is(encoder)]
        existing = suite.victims if encoders is first else ()
        for seed, task in itertools.product(suite.seeds, suite.tasks):
            for encoder in encoders:
                asked += planner.cell(encoder, task, seed)
            for victim in existing:
                asked += planner.victim_cell(
                    planner.existing(victim, task, seed), (victim, task, Choice(name=AS_IS)), seed
                )
        asked += planner.measured(encoders)
        jobs |= {job.key: job for job in asked if job.key not in jobs}
    return Plan(suite=suite, jobs=with_needs(jobs.values(), planner.made), draws=dict(inputs.draws))


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
            below = self.pretrain(encoder, task)
            assert below is not None  # loading has checked that a job trains the encoder
            # It needs again what the training needed, for example the masked LM.
            needed = {"encoder": below, **{role: self.made[key] for role, key in below.needs.items()}}
            asked, parts = self.inputs.building[label], (encoder, task, label)
            jobs.append(self._measure(asked, parts, task, needed, seed, encoders=(encoder,)))
        for strategy in self._strategies(encoder, task):
            victim = self.finetune(encoder, task, strategy, seed)
            jobs += self.victim_cell(victim, (encoder, task, strategy), seed)
        return jobs

    def victim_cell(self, victim: Job, of: tuple[str, str, Choice], seed: int) -> list[Job]:
        """Return the measures and attacks of one victim. `of`: name, task and strategy."""
        suite = self.suite
        jobs = self._of_victim(victim, *of, seed)
        jobs += [self.attack(victim, *of, attack.label, seed) for attack in suite.attacks]
        if not suite.attacks and not suite.build and not self.inputs.measures:
            jobs.append(victim)
        return jobs

    def _strategies(self, encoder: str, task: str) -> list[Choice]:
        """Return the strategies with which the suite fine-tunes an encoder, or one draw of it, on a task."""
        named = self.inputs.draws.get(encoder, Draw(encoder=encoder)).encoder
        asked = self.inputs.tuning.get(task, self.suite.finetune)
        return [one.choice for one in asked if one.serves(named)]

    def existing(self, name: str, task: str, seed: int) -> Job:
        """Return the job that opens a classifier that exists, in the place of a fine-tuning."""
        inputs, spec = self.inputs, self.inputs.victims[name]
        parted = "parts" if inputs.tasks[task].parts else None
        job = VictimJob(
            victim=portable_victim(spec),
            victim_fingerprint=inputs.victim_fingerprints[name, task],
            task=inputs.tasks[task],
            data_fingerprint=inputs.data[task],
            max_validation=training_for(self.suite, inputs.tasks[task]).max_validation,
            versions=self._code("open model" if spec.origin == "model" else "open answers", parted)["versions"],
        )
        return self._job(job, (name, task, AS_IS), {}, seed)

    def _victim(self, name: str, task: str, strategy: Choice, seed: int) -> Job:
        """Return the job that makes or opens a victim."""
        exists = name in self.inputs.victims and strategy.name == AS_IS
        return self.existing(name, task, seed) if exists else self.finetune(name, task, strategy, seed)

    def pretrain(self, name: str, task: str | None = None) -> Job | None:
        """Return the job that makes the weights of encoder `name`, or None where no job makes them.

        Args:
            task: the task that the encoder will be fine-tuned on. An in-domain encoder trains on its training texts.

        Raises PlanError where an in-domain encoder has no task.
        """
        root = trained_root(name, self.inputs.encoders)
        if root is None:
            return None
        inputs, spec = self.inputs, self.inputs.encoders[root]
        in_domain = spec.train is not None and spec.train.data == IN_DOMAIN
        spec = as_trained(spec, inputs.encoders, task)
        assert spec.train is not None
        data = inputs.splits[spec.train.data, "train"] if in_domain else inputs.data[spec.train.data]
        base = registered_base(spec, inputs.encoders)
        needed = {"base": self.pretrain(base, task) if base is not None else None}
        fingerprints = {}
        for option, model in inputs.models.get(root, {}).items():
            made = self.pretrain(model, task) if model in inputs.encoders else None
            needed[f"options.{option}"] = made
            if made is None:
                fingerprints[option] = inputs.weights[model]
        resource_set, hashes = inputs.training.get(root, (None, {}))
        needed["masked_lm"] = self._behind(resource_set, task)
        selection = "selection" if spec.train.selecting else None
        behind = (selection, self._opened(root), *(resource_set.sources if resource_set is not None else ()))
        job = PretrainJob(
            encoder=portable(spec, inputs.models.get(root, ())),
            base_fingerprint=inputs.weights.get(root),
            data_fingerprint=data,
            selection_fingerprint=selected_by(spec.train, inputs.splits),
            model_fingerprints=fingerprints,
            resources=resource_set,
            resource_fingerprints=dict(hashes),
            **self._code("pretrain", f"objectives/{spec.train.objective}", *behind),
        )
        parts = (root, spec.train.data) if in_domain else (root,)
        return self._job(job, parts, needed, spec.train.seed)

    def _behind(self, resource_set: ResourceSet | None, task: str | None = None) -> Job | None:
        """Return the job that trains the masked LM of a resource set, or None where no job trains it."""
        lm = resource_set.masked_lm if resource_set is not None else None
        return self.pretrain(lm.name, task) if lm is not None and lm.kind == "encoder" and lm.name else None

    def as_it_is(self, encoder: str) -> list[Job]:
        """Return the jobs that measure one encoder without fine-tuning it, its similarity scores first."""
        measures = [asked for asked in self.inputs.measures.values() if asked.of == "encoders"]
        jobs = []
        for of in self.suite.evaluations:
            what = Choice(name=STS, options={"split": of.split})
            needs = MeasureNeeds(what=what, of="encoders", unscaled=True, tasks={of.task: what})
            jobs.append(self._of_encoder(needs, (encoder, of.label), of.task))
        return jobs + [
            self._of_encoder(asked, (encoder, asked.label, task), task) for asked in measures for task in asked.tasks
        ]

    def _of_encoder(self, asked: MeasureNeeds, parts: tuple[str, ...], task: str) -> Job:
        """Return the job of a measure that reads one encoder, the first of `parts`, and one task. Its seed is 0."""
        encoder = parts[0]
        below = self.pretrain(encoder)
        resource_set = self.inputs.resources.only(asked.resources) if asked.resources else None
        return self._measure(
            asked.model_copy(update={"what": asked.tasks[task]}),
            parts,
            task,
            {"encoder": below, "masked_lm": self._behind(resource_set)},
            0,
            self._code(self._opened(encoder), *asked.resources)["versions"],
            encoder=portable(effective(encoder, self.inputs.encoders)),
            encoder_fingerprint=None if below else self.inputs.weights[encoder],
            resources=resource_set,
            resource_fingerprints=self._hashes(resource_set),
        )

    def finetune(self, encoder: str, task: str, strategy: Choice, seed: int) -> Job:
        """Return the job that makes a victim: encoder and head, fine-tuned on the task with one strategy and seed."""
        below, label = self.pretrain(encoder, task), strategy.label
        strategy = strategy.on(task)
        asked = self.inputs.strategies.get(strategy.label, StrategyNeeds())
        resource_set = self.inputs.resources.only(asked.resources) if asked.resources else None
        # The clean victim that a strategy's attack needs takes the strategy's training options. It may be in no suite.
        overrides = asked.training if strategy.label in self.inputs.strategies else strategy.options
        training = training_for(self.suite, self.inputs.tasks[task], overrides)
        needed = {"encoder": below, "masked_lm": self._behind(resource_set, task)}
        if asked.attack is not None:
            clean = Choice(name=CLEAN, options=dict(overrides))
            victim = self.finetune(encoder, task, clean, seed)
            n = training.train_rows(self.inputs.sizes[task]["train"])
            needed["attack"] = self.attack(victim, encoder, task, clean, asked.attack, seed, n)
        behind = (self._opened(encoder), *asked.resources, "parts" if self.inputs.tasks[task].parts else None)
        job = FinetuneJob(
            encoder=portable(effective(encoder, self.inputs.encoders)),
            encoder_fingerprint=None if below else self.inputs.weights[encoder],
            strategy=strategy,
            task=self.inputs.tasks[task],
            data_fingerprint=self.inputs.data[task],
            training=training,
            resources=resource_set,
            resource_fingerprints=self._hashes(resource_set),
            **self._code("finetune", f"finetune/{strategy.name}", *behind),
        )
        return self._job(job, (encoder, task, label), needed, seed)

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
        ways = (f"attacks/{spec.name}",) if spec.recipe is None else ("recipe", masked)
        oracle = "oracle" if inputs.tasks[task].has_oracle else None
        job = AttackJob(
            encoder=self._keyed(encoder),
            strategy=strategy.on(task),
            task=inputs.tasks[task],
            data_fingerprint=inputs.data[task],
            attack=spec,
            resources=resource_set,
            resource_fingerprints=self._hashes(resource_set),
            num_examples=n if training_texts is None else training_texts,
            split="test" if training_texts is None else "train",
            versions=self._code("attack", *ways, *spec.needs, oracle, family)["versions"],
        )
        parts = (encoder, task, strategy.label, attack, *(("train",) if training_texts is not None else ()))
        return self._job(job, parts, {"victim": victim, "masked_lm": self._behind(resource_set, task)}, seed)

    def _of_victim(self, victim: Job, encoder: str, task: str, strategy: Choice, seed: int) -> list[Job]:
        """Return the jobs that measure one victim: on the sets of its task, and on the task's rows.

        A set that the plan makes needs the attack on its own victim, with the set's seed.
        """
        made, parts = [], (encoder, task, strategy.label)
        of: dict[str, Any] = {"encoders": (self._keyed(encoder),), "strategies": (strategy.on(task),)}
        for one in self.inputs.sets.get(task, ()):
            needed = {"victim": victim}
            if one.made and isinstance(one.set, AdversarialSet):
                given, how = one.set, one.strategy or Choice(name=CLEAN)
                theirs = self._victim(given.encoder, task, how, given.seed)
                needed["attack"] = self.attack(theirs, given.encoder, task, how, given.attack, given.seed)
            own = of | {"set": one.set} | ({"data_fingerprint": one.fingerprint} if one.fingerprint else {})
            made.append(self._measure(one.needs, (*parts, one.set.name), task, needed, seed, **own))
        for label, asked in self.inputs.measures.items():
            passed = asked.classes and not self.inputs.tasks[task].labels
            if asked.of == "victims" and not passed and (not asked.implied or self._scored_unasked(victim, task)):
                made.append(self._measure(asked, (*parts, label), task, {"victim": victim}, seed, **of))
        return made

    def _scored_unasked(self, victim: Job, task: str) -> bool:
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
        made = []
        mine = [
            next((label for label in labels if label in encoders), labels[0])
            for labels in _labels_of(self.suite, self.inputs.draws)
            if len(labels) == 1 or {*labels} & {*encoders}
        ]
        others = [(label, asked) for label, asked in self.inputs.measures.items() if asked.of in ("attacks", "tasks")]
        for label, asked in others:
            for seed, task in itertools.product(self.suite.seeds if asked.of == "attacks" else (0,), self.suite.tasks):
                if asked.of == "tasks":
                    made.append(self._measure(asked, (label, task), task, {}, seed))
                elif self.inputs.tasks[task].labels:
                    made += [
                        self._asked_of(asked, label, task, attack.label, mine, seed) for attack in self.suite.attacks
                    ]
        return made

    def _asked_of(
        self, asked: MeasureNeeds, label: str, task: str, attack: str, encoders: Sequence[str], seed: int
    ) -> Job:
        """Return the job of a measure that reads all victims of `encoders` and what one attack made of them."""
        needed: dict[str, Job | None] = {}
        tuned = [(encoder, strategy) for encoder in encoders for strategy in self._strategies(encoder, task)]
        own = [(name, Choice(name=AS_IS)) for name in self.suite.victims]
        for encoder, strategy in (*tuned, *own):
            victim = self._victim(encoder, task, strategy, seed)
            needed[MeasureJob.role("victim", encoder, strategy.label)] = victim
            needed[MeasureJob.role("attack", encoder, strategy.label)] = self.attack(
                victim, encoder, task, strategy, attack, seed
            )
        seeds = {draw.train_seed for encoder in encoders if (draw := self.inputs.draws.get(encoder)) is not None}
        parts = (label, task, attack, *(f"train_seed={one}" for one in seeds))
        more: dict[str, Any] = {
            "attack": attack,
            "encoders": tuple(encoders),
            "strategies": tuple({strategy.label: strategy for _, strategy in tuned}.values()),
            "existing": self.suite.victims,
        }
        return self._measure(asked, parts, task, needed, seed, **more)

    def _measure(
        self,
        asked: MeasureNeeds,
        parts: tuple[str, ...],
        task: str,
        needed: Mapping[str, Job | None],
        seed: int,
        further: Mapping[str, int] | None = None,
        **more: Any,
    ) -> Job:
        """Return a job of a measure. `further`: VERSIONs of code that it uses besides the measure's own."""
        what, inputs = asked.what, self.inputs
        asking = "asked" if asked.of in ("attacks", "victims") else None
        code = self._code("measured", asking, f"measures/{what.name}", *asked.files)
        split = split_of(what)
        fields = {"data_fingerprint": inputs.data[task] if split is None else inputs.splits[task, split]}
        job = MeasureJob(
            what=what,
            of=asked.of,
            stores=asked.stores,
            task=inputs.tasks[task].model_copy(update={"scale": None}) if asked.unscaled else inputs.tasks[task],
            source=code["source"],
            versions={**(further or {}), **code["versions"]},
            **(fields | more),
        )
        return self._job(job, parts, needed, seed)

    def _job(self, spec: AnyJob, parts: tuple[str, ...], needed: Mapping[str, Job | None], seed: int) -> Job:
        """Make a job, or return it if it was made before. Roles in `needed` without a job are left out."""
        needs = {role: below.key for role, below in needed.items() if below is not None}
        job = Job.make(spec, parts, needs, seed)
        return self.made.setdefault(job.key, job)

    def _code(self, *names: str | None) -> dict[str, Any]:
        """Merge the code under `names` into what a job holds: `versions` above 1, and the `source` that a user added.

        Names are those of modules and the entries of `versions.PARTS`.
        """
        found = [self.inputs.code[name] for name in names if name is not None and name in self.inputs.code]
        versions = {name: version for one in found for name, version in one.versions.items() if version > 1}
        return {"source": "".join(one.source for one in found), "versions": versions}

    def _keyed(self, encoder: str) -> str:
        """Return the name of an encoder that enters keys. Of one without a file it is not the label: see `portable`."""
        return encoder if encoder in self.inputs.victims else portable(self.inputs.encoders[encoder]).name

    def _opened(self, encoder: str) -> str | None:
        """Return the name in `versions.PARTS` of the code that makes the encoder's weights: a table of word vectors,
        random numbers, or an endpoint that is asked. Return None for weights that are read."""
        source = weights_source(encoder, self.inputs.encoders)
        if source is None:
            return None
        if source.endpoint is not None:
            return "remote encoder"
        return "random encoder" if source.random_weights else "static encoder" if source.word_vectors else None

    def _hashes(self, resource_set: ResourceSet | None) -> dict[str, str]:
        """Return the content hashes of a resource set's resources, for those that no job makes."""
        there = resource_set.sources if resource_set is not None else {}
        return {kind: value for kind, value in sorted(self.inputs.resource_weights.items()) if kind in there}


def _labels_of(suite: Suite, draws: Mapping[str, Draw]) -> list[list[str]]:
    """Return the labels of each encoder of the suite, one for each training seed where it is drawn."""
    return [
        [label for label, draw in draws.items() if draw.encoder == encoder] or [encoder] for encoder in suite.encoders
    ]


def _check_sizes(suite: Suite, inputs: PlanInputs) -> None:
    """Raise PlanError where a test split has fewer rows than the suite attacks."""
    wrong = []
    makes = any(one.made for sets in inputs.sets.values() for one in sets)
    for task in suite.tasks if suite.attacks or makes else ():
        wanted, size = suite.examples_for(task), inputs.sizes[task].get("test", 0)
        if wanted != "all" and wanted > size:
            left = inputs.read.get(task, 0) - size
            why = f" ({left} of its {size + left} rows were left out: their text or label is none)" if left > 0 else ""
            wrong.append(f"{task}: num_examples is {wanted}, but its test split has {size} examples{why}")
    if wrong:
        raise PlanError(
            "; ".join(wrong)
            + ". Give a smaller number, `all`, or a map by task (num_examples: {mr: 100, default: 1000})."
        )
