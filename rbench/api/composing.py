"""Compose the suites of `rbench eval`, and say what its cards ask of their RUNs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rbench import config as loading
from rbench.api import call_options
from rbench.api.card import Asked
from rbench.api.contestants import Model, TaskGiven, name_of, of_the_world
from rbench.config.registry import Registry
from rbench.config.tasks import is_path
from rbench.errors import ResourceError
from rbench.plan.prepare import Options
from rbench.plan.rows import Rows
from rbench.schema import Choice

WHOLE = "exhaustive"
"""The attack that asks for every text with one word replaced, as `--attacks` names it."""
EXACT: Mapping[str, Any] = {WHOLE: {"space": {"max_words": 1}}}
FRONT: Mapping[str, Any] = {"quality": "clean", "robustness": "aua"}
"""What the figure of a ranking has on its axes."""
NOISE: Mapping[str, Any] = {"kinds": ["typos"], "degrees": [0.1]}
SIMILARITY = {True: ("mini-sts",), False: ("stsb",)}
RANKINGS = {True: ("mini-ranking",), False: ("perspectrum_ranking", "nano_quora")}
"""Rankings by preference. Their documents are short, so that encoding them takes seconds."""
TRAINING = {"max_train": 2000, "max_validation": 500}
RESOURCE_SETS = ("local", "standard")
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
MANY = 3
"""Most names of which the name of a RUN is made."""


@dataclass
class Composed:
    """The suites of an evaluation, what the cards ask of their RUNs, and what is left out."""

    models: Sequence[Model]
    tasks: Sequence[TaskGiven]
    attacks: tuple[str, ...]
    """By name; `WHOLE` is that of one word."""
    n: int
    """The most test texts of a task that are attacked."""
    strategy: str | None
    resource_set: str | None
    seed: int
    options: Options
    minutes: float | None = None
    """For how long n and the attacks were chosen; None: the user chose them."""
    hurried: bool = False
    """Whether there is no time for similarity and the ranking of documents."""
    missing: dict[str, str] = field(default_factory=dict)
    """By the id of a number why it is not there. `suites` fills it."""

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.options.include)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks; of a table the name of its file without the ending."""
        return tuple(Path(name).stem if is_path(name) else name for name in map(name_of, self.tasks))

    @property
    def embedded(self) -> bool:
        return of_the_world(self.task_names[0])

    @property
    def finetune(self) -> str:
        return self.strategy or ("clean" if self.embedded else "probe")

    @property
    def vectors(self) -> bool:
        """Whether all models give vectors of sentences."""
        return all(one.kind == "encoders" for one in self.models)

    @property
    def ranked_by(self) -> str | None:
        """The attack that is run on a ranking: the first that searches; None: there is none."""
        return next((name for name in self.attacks if name != WHOLE), None)

    @property
    def available(self) -> tuple[str, ...]:
        """The attacks that have what they need here."""
        return tuple(
            name for name, choice in zip(self.attacks, self._choices, strict=True) if choice.label not in self._left
        )

    @property
    def queries(self) -> dict[str, float]:
        """How many queries each available attack asks for a word, about."""
        specs = zip(self.attacks, self._choices, strict=True)
        return {
            name: self._all.attacks[choice.label].queries_per_word for name, choice in specs if name in self.available
        }

    @property
    def _choices(self) -> list[Choice]:
        return [Choice.model_validate(_entry(name)) for name in self.attacks]

    @cached_property
    def _main(self) -> dict[str, Any]:
        return self._suite(self.task_names, self.tasks, list(map(_entry, self.attacks)), self.n)

    @cached_property
    def _all(self) -> loading.Loaded:
        """The main suite with all attacks, whether or not they have what they need."""
        return self._loaded(self._main)

    @cached_property
    def resources(self) -> str:
        """The resource set: the world's, or the user's, or else the one that lacks fewest resources.

        The word vectors of `local` cannot be downloaded. Where they are missing, the set is `standard`, whose parts
        can.
        """
        if self.embedded or self.resource_set is not None:
            return self.resource_set or "mini"
        needs = {kind for spec in self._all.attacks.values() for kind in spec.needs}
        if "word_vectors" in needs & self._checked("local").keys():
            return "standard"
        return min(RESOURCE_SETS, key=lambda name: len(self._lacks(needs, name)))

    @cached_property
    def _left(self) -> tuple[str, ...]:
        """The labels of the attacks that lack something. Raises ResourceError where all do."""
        attacks = self._all.attacks
        left = tuple(label for label, spec in attacks.items() if self._lacks(spec.needs, self.resources))
        if len(left) == len(attacks):
            needs = sorted({kind for label in left for kind in attacks[label].needs})
            lacking = "\n".join(dict.fromkeys(self._lacks(needs, self.resources)))
            raise ResourceError(
                f"no attack has what it needs of the resources {self.resources}. With a network connection `rbench "
                "status --environment --fix` fetches NLTK's data and the word vectors. What is missing, each with its "
                f"own remedy:\n{lacking}\nTo see a card first, rbench eval mini-bert-packaged needs none of it."
            )
        return left

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many test texts of each task are attacked, in the order of the tasks."""
        rows = Rows(self.options.data)
        there = {name: rows.task(self._all.tasks[name]).sizes.get("test", 0) for name in self._all.suite.tasks}
        return {name: min(self.n, size) or self.n for name, size in there.items()}

    @cached_property
    def suites(self) -> dict[str, dict[str, Any]]:
        """The suites by part of the card: `main`, and `ranking` where there is one."""
        main, n = self._main, max(self.sizes.values())
        for label in self._left:
            self._without(label, self._lacks(self._all.attacks[label].needs, self.resources))
        kept = list(map(_entry, self.available))
        counts = self.sizes if len({*self.sizes.values()}) > 1 else n
        main |= {"attacks": kept, "num_examples": counts, "resources": self.resources}
        main["evaluate"] = [{"noise": {**NOISE, "num_examples": n, "seed": self.seed}}]
        if not self.hurried and self.similarity is not None:
            main["evaluate"].append(self.similarity[0])
        several = len(self.models) > 1
        main["tables"] = [
            {"metric": name} for name in (*(["ranks"] if several else []), "aua", "asr", "clean", "noise")
        ]
        main["figures"] = [{"front": FRONT}] if several else ["queries"]
        main |= {"minutes": self.minutes} if self.minutes is not None else {}
        made = {"main": main}
        found, by = None if self.hurried else self._first("ndcg", RANKINGS[self.embedded]), self.ranked_by
        if self.hurried:
            late = f"there was no time for it in {self.minutes:g} minutes; -n in place of --minutes has it"
            self.missing |= dict.fromkeys(("sts", "ndcg", "ndcg-attacked"), late)
        elif found is not None and by in self.available:
            name, size = found
            suite = self._suite((name,), [name], [by], min(self.n, size))
            tables = [{"metric": one} for one in ("ndcg_before", "ndcg_after", "asr")]
            made["ranking"] = suite | {
                "resources": self.resources,
                "finetune": ["retriever"],
                "tables": tables,
                "training": {},
            }
        return made

    @cached_property
    def similarity(self) -> tuple[str, int] | None:
        """The task of similarity and the number of its pairs; None where there is none."""
        return self._first("sts", SIMILARITY[self.embedded])

    def where(self, part: str) -> Options:
        """Return the options of a part: the folder that a user names is that of the main one."""
        out = self.options.out
        if part == "main" or out is None:
            return self.options
        return dataclasses.replace(self.options, out=out.with_name(f"{out.name}-{part}"))

    def folder(self, part: str) -> Path | None:
        """Return the folder of the RUN of a part; None where there is no such part."""
        suite = self._main if part == "main" else self.suites.get(part)
        return None if suite is None else self.where(part).out or Path("results") / "runs" / str(suite["name"])

    def _suite(self, names: Sequence[str], tasks: Sequence[TaskGiven], attacks: list[Any], n: int) -> dict[str, Any]:
        title, on = _listed([one.name for one in self.models]), _listed(names)
        suite: dict[str, Any] = {
            "name": re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(("eval", self.models[0].name, *names[:MANY]))),
            "title": f"Evaluation of {title} on {on}",
            "tasks": list(tasks),
            "attacks": attacks,
            "seeds": [self.seed],
            "num_examples": n,
            "training": TRAINING,
            "resources": "mini" if self.embedded else self.resource_set or RESOURCE_SETS[-1],
        }
        for one in self.models:
            suite.setdefault(one.kind, []).append(one.entry)
        return suite | ({"finetune": [self.finetune]} if "encoders" in suite else {})

    def _loaded(self, suite: dict[str, Any]) -> loading.Loaded:
        return loading.load_mapping(call_options.plain(suite), registry=self.registry, origin="rbench eval")

    def _lacks(self, needs: Iterable[str], resource_set: str) -> list[str]:
        """Return what is not here of a set's resources, each with its remedy."""
        return [self._checked(resource_set)[kind] for kind in sorted({*needs} & self._checked(resource_set).keys())]

    def _checked(self, resource_set: str) -> dict[str, str]:
        from rbench.words import resources

        if resource_set not in self._known:
            spec = loading.load_resources(resource_set, self.registry)
            checks = resources.checks(spec, self.options.models)
            self._known[resource_set] = {kind: f"{kind}: {remedy}" for kind, _, ok, _, remedy in checks if not ok}
        return self._known[resource_set]

    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    def _without(self, label: str, why: Sequence[str]) -> None:
        names = ["exact"] if label.startswith(WHOLE) else [f"aua-{label}", f"asr-{label}"]
        names += ["ndcg", "ndcg-attacked"] if label == self.ranked_by else []
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
        """The numbers of a card, in its order."""
        attacks = self._all.attacks
        titles = {name: attacks[name].short or attacks[name].title or name for name in self.attacks if name in attacks}
        several = len(self.sizes) > 1
        found = [one for task in self.sizes for one in self._asked_of(task, titles, f" on {task}" if several else "")]
        similar, ranking, by = self._task_of("sts"), self._task_of("ranking"), self.ranked_by or ""
        return (
            *found,
            Asked("sts", f"Similarity ({similar}, Spearman)", "sts", "main", similar, None, _STS),
            Asked("ndcg", f"Ranking ({ranking}, nDCG@10)", "ndcg_before", "ranking", ranking, by, _NDCG),
            Asked(
                "ndcg-attacked",
                f"Ranking under {titles.get(by, 'attack')} (nDCG@10)",
                "ndcg_after",
                "ranking",
                ranking,
                by,
                _ATTACKED,
            ),
        )

    def _asked_of(self, task: str, titles: Mapping[str, str], on: str) -> Iterator[Asked]:
        """Yield the numbers of one task. `on` ends their titles where there are several tasks."""
        exact = Choice.model_validate(dict(EXACT)).label
        yield Asked("clean", f"Clean accuracy{on}", "clean", "main", task, None, _CLEAN)
        for attack in titles:
            said, title = _AUA.format(how=HOW.get(attack, f"by {titles[attack]}")), titles[attack]
            yield Asked(f"aua-{attack}", f"Accuracy under {title}{on}", "aua", "main", task, attack, said)
            yield Asked(f"asr-{attack}", f"Success rate of {title}{on}", "asr", "main", task, attack, _ASR)
        yield Asked("exact", f"Exact success rate, one word{on}", "asr", "main", task, exact, _EXACT)
        yield Asked("noise", f"Accuracy with typing errors{on}", "noise", "main", self._noisy(task), None, _NOISE)

    def _noisy(self, task: str) -> str:
        """Return what names the accuracy on a task with typing errors, as claims do."""
        label = f"typos@{NOISE['degrees'][0]:g}"
        return label if len(self.sizes) == 1 else f"{task}/{label}"

    def _task_of(self, part: str) -> str:
        """Return the name of the task that a number is of; where there is none, that of the one that was looked for."""
        if part == "sts":
            return SIMILARITY[self.embedded][0]
        if part == "ranking":
            return self.suites["ranking"]["tasks"][0] if "ranking" in self.suites else RANKINGS[self.embedded][0]
        return next(iter(self.sizes))

    @property
    def guesses(self) -> list[str]:
        """What nobody said and was found out, a line each. What is guessed of tables, planning notes."""
        how = {"encoders": f"an encoder (fine-tuning: {self.finetune})", "victims": "a classifier, attacked as it is"}
        said = [f"{one.name}: {how[one.kind]}" for one in self.models]
        left = [name for name in self.attacks if name not in self.available]
        if left:
            said.append(f"left out, since something is missing (rbench status --environment --fix): {', '.join(left)}")
        return [*said, f"resources behind attacks: the resource set {self.resources}"]

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
        said.append(f"Word lists and models behind the attacks: the resource set {made['resources']}.")
        return said


def _entry(attack: str) -> Any:
    """Return what a suite has for an attack of `--attacks`."""
    return dict(EXACT) if attack == WHOLE else attack


def _listed(names: Sequence[str]) -> str:
    """Write names for people: all of a few, else the first and how many more."""
    if len(names) > MANY:
        return f"{names[0]} and {len(names) - 1} others"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


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
