"""Evaluate one model, alone or beside another: compose the suites of `rbench eval`, and run them.

One suite attacks the model as a classifier (an encoder is first made one). A second one attacks its rankings, because
each attack of a suite must serve all of its tasks. Both run and resume as all suites do, and `rbench.api.card` reads
the card from their RUNs.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rbench import config as loading
from rbench.api import call_options
from rbench.api.attacking import classifier
from rbench.api.card import Asked, Card, Part, card_of
from rbench.api.results import RunResult
from rbench.api.runs import results_of
from rbench.api.suites import run
from rbench.config.positions import Problems, read
from rbench.config.registry import Registry
from rbench.config.tasks import is_path
from rbench.errors import ResourceError, SuiteError
from rbench.plan.prepare import Options
from rbench.plan.rows import Rows
from rbench.schema import Choice, VictimSpec, victim_name
from rbench.schema.unlisted import short_name
from rbench.store.runs import Store
from rbench.system.progress import Progress, shown

WORLD = "mini"
"""The part of a name that marks what belongs to the embedded world: `mini-sentiment`, `simcse-mini`."""
SMALL = 5000
"""A model with a smaller vocabulary (in config.json) is taken to know the embedded world and no English."""
DEFAULT = ("textfooler", "textbugger")
EXACT: Mapping[str, Any] = {"exhaustive": {"space": {"max_words": 1}}}
NOISE: Mapping[str, Any] = {"kinds": ["typos"], "degrees": [0.1]}
TASKS = {True: "mini-sentiment", False: "mr"}
"""The task of a command that names none: of the embedded world, and of English."""
SIMILARITY = {True: ("mini-sts",), False: ("stsb",)}
RANKINGS = {True: ("mini-ranking",), False: ("perspectrum_ranking", "nano_quora")}
"""Rankings by preference. Their documents are short, so that encoding them takes seconds."""
TRAINING = {"max_train": 2000, "max_validation": 500}
PROFILES = ("local", "standard")
HOW = {
    "textfooler": "words are replaced by near ones",
    "textbugger": "letters are swapped, dropped, spaced or replaced by look-alikes, and words by near ones",
    "pwws": "words are replaced by synonyms of a dictionary",
    "bae": "words are replaced by what a language model proposes",
    "bertattack": "words are replaced by what a language model proposes",
    "geometry": "words are replaced along the gradient",
    "typos": "the worst typing error is made",
}
"""By attack, what it does to a text."""


@dataclass(frozen=True)
class Model:
    """A model as the command line names it, and what a suite says of it."""

    text: str
    kind: Literal["encoders", "victims"]
    entry: Any
    english: bool | None
    """Whether it reads English, and not the embedded world; None: nothing tells."""

    @property
    def name(self) -> str:
        """A name for folders and for people: the last part of a folder or hub id."""
        named = victim_name(self.entry) if self.kind == "victims" else self.text
        return short_name(named) if "/" in named else str(named)


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: its card, and the results of the suites behind it."""

    card: Card
    runs: tuple[RunResult, ...]

    @property
    def failed(self) -> bool:
        """Whether jobs failed, or were not run because of those that did."""
        return any(one.failed or one.skipped for one in self.runs)

    @property
    def left(self) -> bool:
        """Whether jobs are left, which other processes have."""
        return any(one.left or one.elsewhere for one in self.runs)


def evaluate(
    model: str,
    options: Options | None = None,
    *,
    task: str | Mapping[str, Any] | None = None,
    attacks: str | None = None,
    n: int = 100,
    compare_to: str | None = None,
    finetune: str | None = None,
    resources: str | None = None,
    seed: int = 0,
    label_map: str | None = None,
    progress: Progress | bool = True,
    **settings: Any,
) -> Evaluated:
    """Evaluate one model, alone or beside another, and return its card of ten numbers. The same call resumes.

    Args:
        model: an encoder's name, folder or hub id; or a classifier's, `module:function` or address.
        task: a task with classes, or a table; None: mini-sentiment for models of the embedded world, else mr.
        attacks: two attacks, as A,B (`rbench list attacks`); None: textfooler,textbugger.
        n: how many test texts are attacked.
        compare_to: a second model. The differences are judged text by text.
        finetune: how an encoder becomes a classifier: probe (frozen, with a linear head), clean, or another strategy of
            `rbench list finetune`; None: probe, and clean in the embedded world, whose small networks need it.
        resources: the profile of words and models behind attacks; None: local where all of it is there, else standard.
        seed: decides fine-tuning, attacks and which texts.
        label_map: what a classifier's labels mean, such as LABEL_0=negative,LABEL_1=positive; None: by name.
        progress: as of `rbench.run`.
        settings: single fields of `Options`.

    Raises:
        SuiteError: a name is wrong, or a model of English meets the embedded world or the other way round.
        ResourceError: the task's data or the attacks' resources are not here; with remedies.
    """
    options = call_options.options_of(options, settings)
    if n < 1:
        raise SuiteError(f"--n {n}: expected at least one text")
    registry = Registry(options.include)
    texts = [model, *([compare_to] if compare_to is not None else [])]
    models = [model_of(text, label_map, registry, options.models) for text in texts]
    if label_map is not None and not any(one.kind == "victims" for one in models):
        raise SuiteError("--label-map goes with a classifier: it says what the classifier's labels mean")
    if finetune is not None and not any(one.kind == "encoders" for one in models):
        raise SuiteError("--finetune goes with an encoder: a classifier that exists is attacked as it is")
    if len({one.name for one in models}) < len(models):
        raise SuiteError(f"{model} and {compare_to} have one name, {models[0].name}; rename the folder of one of them")
    chosen = task_of(models, task, registry)
    plan = Composed(models, chosen, _attacks(attacks), n, finetune, resources, seed, options)
    with shown(progress) as receiver:
        ran = {part: run(suite, plan.where(part), progress=receiver) for part, suite in plan.suites.items()}
    parts = {part: Part(results_of(one.run), Store(one.run), one.report) for part, one in ran.items()}
    labels = tuple(_label(one, models, parts["main"]) for one in models)
    return Evaluated(card_of(labels, plan.asked, parts, plan.missing, plan.notes), tuple(ran.values()))


def _label(model: Model, models: Sequence[Model], part: Part) -> str:
    """Return the name that a model has in the plan of a RUN."""
    suite = part.results.plan.suite
    own = [one for one in models if one.kind == model.kind]
    return (suite.encoders if model.kind == "encoders" else suite.victims)[own.index(model)]


def _attacks(given: str | None) -> tuple[str, ...]:
    names = DEFAULT if given in (None, "default") else tuple(name.strip() for name in str(given).split(","))
    if len({*names}) != 2 or not all(names):
        raise SuiteError(f"--attacks {given}: name two attacks, such as {','.join(DEFAULT)}")
    return names


def model_of(text: str, label_map: str | None, registry: Registry, models: Sequence[Path]) -> Model:
    """Return the model that a text names: an encoder, or a classifier, known by its name, form or config.json."""
    from rbench.encoders.model_metadata import has_head
    from rbench.victims.config import read_config
    from rbench.victims.place import located

    if text in registry.names("encoders"):
        return Model(text, "encoders", text, WORLD not in re.split(r"[-_]", text))
    if (named := _encoder_file(text)) is not None:
        return Model(named, "encoders", text, None)
    entry = classifier(text, label_map, registry)
    if not (isinstance(entry, Mapping) and "model" in entry):
        return Model(text, "victims", entry, None)
    try:
        config = read_config(located(VictimSpec(name="model", model=text), models).where)
    except ResourceError:  # the suite says what is wrong, as it does for all encoders
        return Model(text, "encoders", text, None)
    size = config.get("vocab_size")
    english = size >= SMALL if isinstance(size, int) else None
    return Model(text, "victims", entry, english) if has_head(config) else Model(text, "encoders", text, english)


def _encoder_file(text: str) -> str | None:
    """Return the name of the encoder that a YAML file describes; None for other texts, and for files of victims, whose
    `endpoint` has no `model`."""
    path = Path(text)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return None
    said = read(path, Problems()).data
    endpoint = said.get("endpoint")
    if any(key in said for key in ("base", "architecture", "word_vectors")) or (
        isinstance(endpoint, Mapping) and "model" in endpoint
    ):
        return str(said.get("name", path.stem))
    return None


def task_of(models: Sequence[Model], task: str | Mapping[str, Any] | None, registry: Registry) -> str | dict[str, Any]:
    """Return the task that is asked for, or the default one.

    Raises SuiteError where the models and the task are not of one language: the numbers would say nothing.
    """
    known = [one for one in models if one.english is not None]
    if task is None:
        if not known and models[0].kind == "victims":
            raise SuiteError(f"nothing tells which labels {models[0].text} gives; name the task: --task NAME or FILE")
        task = TASKS[bool(known) and not known[0].english]
    name = task if isinstance(task, str) else next(iter(task))
    own = not is_path(name) and _of_the_world(name)
    for one in known:
        if own and one.english:
            raise SuiteError(
                f"{one.text} reads English, and {name} is of the embedded world, a small made-up language: its numbers "
                "would say nothing. Name a task of English (--task mr --data DATA) or a table of your own (--task FILE)"
            )
        if not own and not one.english:
            raise SuiteError(
                f"{one.text} has learnt the embedded world, a small made-up language, and no English: its numbers on "
                f"{name} would say nothing. Name a task of its world: --task {TASKS[True]}"
            )
    if is_path(name) and all(one.kind == "victims" for one in models):
        return {name: {"split": "test", **(task if isinstance(task, Mapping) else {name: {}})[name]}}
    return task if isinstance(task, str) else dict(task)


def _of_the_world(task: str) -> bool:
    return task.startswith(f"{WORLD}-")


@dataclass
class Composed:
    """The suites of an evaluation, what the card asks of their RUNs, and what is left out."""

    models: Sequence[Model]
    task: str | dict[str, Any]
    attacks: tuple[str, ...]
    n: int
    strategy: str | None
    profile: str | None
    seed: int
    options: Options
    missing: dict[str, str] = field(default_factory=dict)
    """By the id of a number why it is not there. `suites` fills it."""

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.options.include)

    @property
    def task_name(self) -> str:
        name = self.task if isinstance(self.task, str) else next(iter(self.task))
        return Path(name).stem if is_path(name) else name

    @property
    def embedded(self) -> bool:
        return _of_the_world(self.task_name)

    @property
    def finetune(self) -> str:
        return self.strategy or ("clean" if self.embedded else "probe")

    @property
    def vectors(self) -> bool:
        """Whether all models give vectors of sentences."""
        return all(one.kind == "encoders" for one in self.models)

    @cached_property
    def suites(self) -> dict[str, dict[str, Any]]:
        """The suites by part of the card: `main`, and `ranking` where there is one."""
        main = self._suite(self.task_name, self.task, [*self.attacks, dict(EXACT)], self.n)
        loaded = self._loaded(main)
        rows = Rows(self.options.data).task(
            next(one for name, one in loaded.tasks.items() if name in loaded.suite.tasks)
        )
        profile = self._resources(loaded)
        left = [label for label, spec in loaded.attacks.items() if self._lacks(spec.needs, profile)]
        if len(left) == len(loaded.attacks):
            lacking = "\n".join(dict.fromkeys(self._lacks(loaded.attacks[left[0]].needs, profile)))
            raise ResourceError(
                f"no attack has what it needs of the resources {profile}. What is missing, each with its remedy:\n"
                f"{lacking}\nTo see a card first, rbench eval mini-bert-packaged needs none of it."
            )
        for label in left:
            self._without(label, self._lacks(loaded.attacks[label].needs, profile))
        n = min(self.n, rows.sizes.get("test", 0)) or self.n
        kept = [one for one in main["attacks"] if Choice.model_validate(one).label not in left]
        main |= {"attacks": kept, "num_examples": n, "resources": profile}
        main["evaluate"] = [{"noise": {**NOISE, "num_examples": n, "seed": self.seed}}]
        if (found := self._first("sts", SIMILARITY[self.embedded])) is not None:
            main["evaluate"].append(found[0])
        main["tables"] = [{"metric": name} for name in ("aua", "asr", "clean", "noise")]
        made = {"main": main}
        if (found := self._first("ndcg", RANKINGS[self.embedded])) is not None and self.attacks[0] not in left:
            name, size = found
            suite = self._suite(name, name, [self.attacks[0]], min(self.n, size))
            tables = [{"metric": one} for one in ("ndcg_before", "ndcg_after", "asr")]
            made["ranking"] = suite | {
                "resources": profile,
                "finetune": ["retriever"],
                "tables": tables,
                "training": {},
            }
        return made

    def where(self, part: str) -> Options:
        """Return the options of a part: the folder that a user names is that of the main one."""
        out = self.options.out
        if part == "main" or out is None:
            return self.options
        return dataclasses.replace(self.options, out=out.with_name(f"{out.name}-{part}"))

    def _suite(self, name: str, task: Any, attacks: list[Any], n: int) -> dict[str, Any]:
        title = " and ".join(one.name for one in self.models)
        suite: dict[str, Any] = {
            "name": re.sub(r"[^A-Za-z0-9._-]+", "-", f"eval-{self.models[0].name}-{name}"),
            "title": f"Evaluation of {title} on {name}",
            "tasks": [task],
            "attacks": attacks,
            "seeds": [self.seed],
            "num_examples": n,
            "training": TRAINING,
            "resources": "mini" if self.embedded else self.profile or PROFILES[-1],
        }
        for one in self.models:
            suite.setdefault(one.kind, []).append(one.entry)
        return suite | ({"finetune": [self.finetune]} if "encoders" in suite else {})

    def _loaded(self, suite: dict[str, Any]) -> loading.Loaded:
        return loading.load_mapping(call_options.plain(suite), registry=self.registry, origin="rbench eval")

    def _resources(self, loaded: loading.Loaded) -> str:
        """Return the resource profile: the world's, or the user's, or else the one that lacks fewest resources.

        The word vectors of `local` cannot be downloaded. Where they are missing, the profile is `standard`, whose parts
        can.
        """
        if self.embedded or self.profile is not None:
            return self.profile or "mini"
        needs = {kind for spec in loaded.attacks.values() for kind in spec.needs}
        if "word_vectors" in needs & self._checked("local").keys():
            return "standard"
        return min(PROFILES, key=lambda name: len(self._lacks(needs, name)))

    def _lacks(self, needs: Iterable[str], profile: str) -> list[str]:
        """Return what is not here of a profile's resources, each with its remedy."""
        return [self._checked(profile)[kind] for kind in sorted({*needs} & self._checked(profile).keys())]

    def _checked(self, profile: str) -> dict[str, str]:
        from rbench.words import resources

        if profile not in self._known:
            spec = loading.load_resources(profile, self.registry)
            checks = resources.checks(spec, self.options.models)
            self._known[profile] = {kind: f"{kind}: {remedy}" for kind, _, ok, _, remedy in checks if not ok}
        return self._known[profile]

    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    def _without(self, label: str, why: Sequence[str]) -> None:
        names = ["exact"] if label.startswith("exhaustive") else [f"aua-{label}", f"asr-{label}"]
        names += ["ndcg", "ndcg-attacked"] if label == self.attacks[0] else []
        self.missing |= dict.fromkeys(names, "; ".join(why))

    def _first(self, what: str, names: Sequence[str]) -> tuple[str, int] | None:
        """Return the first task whose rows are here or on the hub, and how many there are; say why there is none."""
        ids = ["sts"] if what == "sts" else ["ndcg", "ndcg-attacked"]
        if not self.vectors:
            other = next(one for one in self.models if one.kind == "victims")
            self.missing |= dict.fromkeys(
                ids, f"{other.name} is a classifier: it gives labels, and no vectors to compare"
            )
            return None
        why = []
        for name in names:
            try:
                found = Rows(self.options.data).task(loading.load_task(name, self.registry))
                return name, found.sizes["test"]
            except ResourceError as error:
                why.append(str(error))
        self.missing |= dict.fromkeys(ids, why[0])
        return None

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The numbers of the card, in its order."""
        main, first, exact = self.suites["main"], self.attacks[0], Choice.model_validate(dict(EXACT)).label
        task, similar, ranking = (self._task_of(part) for part in ("main", "sts", "ranking"))
        found = [Asked("clean", "Clean accuracy", "clean", "main", task, None, _CLEAN)]
        titles = {attack: spec.short or spec.title or attack for attack, spec in self._loaded(main).attacks.items()}
        for attack in self.attacks:
            said, title = _AUA.format(how=HOW.get(attack, f"by {titles[attack]}")), titles[attack]
            found += [
                Asked(f"aua-{attack}", f"Accuracy under {title}", "aua", "main", task, attack, said),
                Asked(f"asr-{attack}", f"Success rate of {title}", "asr", "main", task, attack, _ASR),
            ]
        typos = f"typos@{NOISE['degrees'][0]:g}"
        return (
            *found,
            Asked("exact", "Exact success rate, one word", "asr", "main", task, exact, _EXACT),
            Asked("noise", "Accuracy with typing errors", "noise", "main", typos, None, _NOISE),
            Asked("sts", f"Similarity ({similar}, Spearman)", "sts", "main", similar, None, _STS),
            Asked("ndcg", f"Ranking ({ranking}, nDCG@10)", "ndcg_before", "ranking", ranking, first, _NDCG),
            Asked(
                "ndcg-attacked",
                f"Ranking under {titles[first]} (nDCG@10)",
                "ndcg_after",
                "ranking",
                ranking,
                first,
                _ATTACKED,
            ),
        )

    def _task_of(self, part: str) -> str:
        """Return the name of the task that a number is of; where there is none, that of the one that was looked for."""
        if part == "sts":
            return SIMILARITY[self.embedded][0]
        if part == "ranking":
            return self.suites["ranking"]["tasks"][0] if "ranking" in self.suites else RANKINGS[self.embedded][0]
        return next(iter(self._loaded(self.suites["main"]).suite.tasks))

    @property
    def notes(self) -> list[str]:
        """How the numbers came about, a sentence each."""
        made = self.suites["main"]
        said = []
        if "encoders" in made:
            how = {"probe": "kept frozen below a linear head", "clean": "fine-tuned with a linear head"}
            made_by = how.get(self.finetune, f"fine-tuned with a linear head (strategy {self.finetune})")
            rows = f"at most {TRAINING['max_train']:,} training texts"
            said.append(f"The classifier is the encoder, {made_by}. It saw {rows}, with one seed.")
        if self.embedded:
            said.append(
                "The texts are of the embedded world, a small made-up language: nothing here says anything of English."
            )
        elif any(one.english is None for one in self.models):
            said.append("Nothing tells which language a model behind a function or an address reads.")
        if any(isinstance(one.entry, Mapping) and one.entry.get("version") for one in self.models):
            said.append(
                "A function or an address has no version here: stored answers are taken while a fixed probe is "
                "answered alike. --fresh asks again."
            )
        said.append(f"Word lists and models behind the attacks: the profile {made['resources']}.")
        return said


_CLEAN = "Classified correctly as they are: {hits} of {n} texts."
_AUA = "Still classified correctly when an attack may change them ({how}): {{hits}} of {{n}} texts."
_ASR = "Turned wrong by the attack: {hits} of the {n} texts that were right."
_EXACT = (
    "Turned wrong by replacing a single word with a near one: {hits} of the {n} texts that were right. Every such "
    "change that the list of near words allows was tried, so no search finds more in it."
)
_NOISE = (
    "Classified correctly with a random typing error in every tenth letter: {value}% of the texts. Nobody looked for "
    "the worst errors."
)
_STS = "How well the vectors order {n} pairs of sentences by likeness, as people do: 100 is perfect, 0 is chance."
_NDCG = "How high the relevant documents stand among the first ten, over {n} queries: 100 is perfect."
_ATTACKED = "The same queries, each at the worst text that the attack found, also where it failed."
