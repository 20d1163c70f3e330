"""Compose the suites of `rbench eval`, and say what its cards ask of their RUNs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rbench import config as loading
from rbench.api import call_options
from rbench.api.card import CardMetric
from rbench.api.contestants import ContestantModel, TaskGiven, is_embedded, task_name
from rbench.config.registry import Registry
from rbench.config.tasks import elsewhere_of, is_path
from rbench.errors import ResourceError
from rbench.mini.contrast import WITH_CONTRAST_SET
from rbench.plan.prepare import Options
from rbench.plan.rows import RowCache
from rbench.schema import CONTRAST, Choice, Suite
from rbench.tasks.contrast import locate_contrast, open_contrast

EXHAUSTIVE = "exhaustive"
"""The attack that asks for every text with one word replaced, as `--attacks` names it."""
ONE_WORD_SPACE: Mapping[str, Any] = {EXHAUSTIVE: {"space": {"max_words": 1}}}
FRONT_AXES: Mapping[str, Any] = {"quality": "clean", "robustness": "aua"}
"""What the figure of a ranking has on its axes."""
NOISE_OPTIONS: Mapping[str, Any] = {"kinds": ["typos"], "degrees": [0.1]}
EDITS = ("negation", "antonym")
"""The kinds of edits that are asked of tasks of the embedded world; of a topic such edits change nothing."""
LEAST_EDITED = 0.5
"""The share of test texts that people must have edited for two-sided robustness: of fewer, few are attacked."""
SIMILARITY_TASKS = {True: ("mini-sts",), False: ("stsb",)}
RANKING_TASKS = {True: ("mini-ranking",), False: ("perspectrum_ranking", "nano_quora")}
"""Rankings by preference. Their documents are short, so that encoding them takes seconds."""
TRAINING = {"max_train": 2000, "max_validation": 500}
RESOURCE_SETS = ("local", "standard")
ATTACK_DESCRIPTIONS = {
    "textfooler": "words are replaced by near ones",
    "textbugger": "letters are swapped, dropped, spaced or replaced by look-alikes, and words by near ones",
    "pwws": "words are replaced by synonyms of a dictionary",
    "bae": "words are replaced by what a language model proposes",
    "bertattack": "words are replaced by what a language model proposes",
    "geometry": "words are replaced along the gradient",
    "typos": "the worst typing error is made",
}
"""By attack, what it does to a text."""
MAX_NAMES = 3
"""Most names of which the name of a RUN is made."""


def _task_name(written: str, registry: Registry) -> str:
    """Return the name of a task; of a table that of its file without the ending, or of its data set.

    A table that has the name of a task of rbench is called otherwise, as `rbench.config.tasks` does.
    """
    if not is_path(written):
        return written
    elsewhere = elsewhere_of(written)
    name = Path(written).stem if elsewhere is None else elsewhere.name
    return f"{name}-table" if name in registry.names("tasks") else name


@dataclass
class EvaluationPlan:
    """The suites of an evaluation, what the cards ask of their RUNs, and what is left out."""

    models: Sequence[ContestantModel]
    tasks: Sequence[TaskGiven]
    attacks: tuple[str, ...]
    """By name; `WHOLE_JOB` is that of one word."""
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
    has_control: bool = False
    """Whether the last model is the control beside which it is judged whether the others overlook."""
    missing: dict[str, str] = field(default_factory=dict)
    """By the id of a number why it is not there. `suites` fills it."""

    @cached_property
    def registry(self) -> Registry:
        return Registry(self.options.include)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The names of the tasks; of a table the name of its file without the ending."""
        return tuple(_task_name(task_name(task), self.registry) for task in self.tasks)

    @property
    def embedded(self) -> bool:
        return is_embedded(self.task_names[0])

    @property
    def finetune(self) -> str:
        return self.strategy or ("clean" if self.embedded else "probe")

    @property
    def vectors(self) -> bool:
        """Whether all models give vectors of sentences."""
        return all(model.kind == "encoders" for model in self.models)

    @property
    def ranked_by(self) -> str | None:
        """The attack that is run on a ranking: the first that searches; None: there is none."""
        return next((name for name in self.attacks if name != EXHAUSTIVE), None)

    @property
    def available_attacks(self) -> tuple[str, ...]:
        """The attacks that have what they need here."""
        return tuple(
            name for name, choice in zip(self.attacks, self._choices, strict=True) if choice.label not in self._left
        )

    @property
    def queries(self) -> dict[str, float]:
        """How many queries each available attack asks for a word, about."""
        specs = zip(self.attacks, self._choices, strict=True)
        return {
            name: self._all.attacks[choice.label].queries_per_word
            for name, choice in specs
            if name in self.available_attacks
        }

    @property
    def _choices(self) -> list[Choice]:
        return [Choice.model_validate(_attack_entry(name)) for name in self.attacks]

    @cached_property
    def _main_suite(self) -> dict[str, Any]:
        """The content of the suite with all tasks but rankings, which have a suite of their own."""
        return self._suite(self.task_names, self.tasks, list(map(_attack_entry, self.attacks)), self.n)

    @cached_property
    def _all(self) -> loading.LoadedSuite:
        """The main suite with all attacks, whether or not they have what they need."""
        return self._load_suite(self._main_suite)

    @property
    def lineup(self) -> tuple[str, ...]:
        """The models as the suite names them."""
        return self._all.suite.lineup

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
        return min(RESOURCE_SETS, key=lambda name: len(self._remedies(needs, name)))

    @cached_property
    def _left(self) -> tuple[str, ...]:
        """The labels of the attacks that lack something. Raises ResourceError where all do."""
        attacks = self._all.attacks
        left = tuple(label for label, spec in attacks.items() if self._remedies(spec.needs, self.resources))
        if len(left) == len(attacks):
            needs = sorted({kind for label in left for kind in attacks[label].needs})
            lacking = "\n".join(dict.fromkeys(self._remedies(needs, self.resources)))
            raise ResourceError(
                f"no attack has what it needs of the resources {self.resources}. With a network connection `rbench "
                "status --environment --fix` fetches NLTK's data and the word vectors. What is missing, each with its "
                f"own remedy:\n{lacking}\nTo see a card first, rbench eval mini-bert-packaged needs none of it."
            )
        return left

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many test texts of each task are attacked, in the order of the tasks."""
        rows = RowCache(self.options.data)
        test_rows = {name: rows.task(self._all.tasks[name]).sizes.get("test", 0) for name in self._all.suite.tasks}
        return {name: min(self.n, size) or self.n for name, size in test_rows.items()}

    @cached_property
    def suites(self) -> dict[str, dict[str, Any]]:
        """The suites by part of the card: `main`, and `ranking` where there is one."""
        main, n = self._main_suite, max(self.sizes.values())
        for label in self._left:
            self._note_missing(label, self._remedies(self._all.attacks[label].needs, self.resources))
        attack_entries = list(map(_attack_entry, self.available_attacks))
        counts = self.sizes if len({*self.sizes.values()}) > 1 else n
        main |= {"attacks": attack_entries, "num_examples": counts, "resources": self.resources}
        main["evaluate"] = [{"noise": {**NOISE_OPTIONS, "num_examples": n, "seed": self.seed}}]
        if not self.hurried and self.similarity is not None:
            main["evaluate"].append(self.similarity[0])
        main["evaluate"] += self._label_changes
        several = len(self.models) > 1
        main["tables"] = [
            {"metric": name} for name in (*(["ranks"] if several else []), "words", "aua", "asr", "clean", "noise")
        ]
        if self.is_two_sided:
            control = {"control": label_in_suite(self.models[-1], self.models, self._all.suite)}
            main["tables"].append({"metric": "two_sided", **(control if self.has_control else {})})
        main["figures"] = [{"front": FRONT_AXES}] if several else ["queries"]
        main |= {"minutes": self.minutes} if self.minutes is not None else {}
        built = {"main": main}
        ranking_task, searching_attack = (
            None if self.hurried else self._first("ndcg", RANKING_TASKS[self.embedded]),
            self.ranked_by,
        )
        if self.hurried:
            late = f"there was no time for it in {self.minutes:g} minutes; -n in place of --minutes has it"
            self.missing |= dict.fromkeys(("sts", "ndcg", "ndcg-attacked"), late)
        elif ranking_task is not None and searching_attack in self.available_attacks:
            name, size = ranking_task
            suite = self._suite((name,), [name], [searching_attack], min(self.n, size))
            tables = [{"metric": metric} for metric in ("ndcg_before", "ndcg_after", "asr")]
            built["ranking"] = suite | {
                "resources": self.resources,
                "finetune": ["retriever"],
                "tables": tables,
                "training": {},
            }
        return built

    @cached_property
    def _label_changes(self) -> list[Any]:
        """What reads edits that change the label: those of an oracle, or of the contrast sets that are here."""
        if self._has_oracle:
            return [{"two_sided": {"edits": [*EDITS]}}]
        found = [{CONTRAST: {"set": name}} for name in self._contrast_sets.values()]
        two_sided = ["two_sided"] if self.is_two_sided else []
        return [*found, "sensitivity", *two_sided] if found else []

    @cached_property
    def _has_oracle(self) -> bool:
        return all(self._all.tasks[name].generator in WITH_CONTRAST_SET for name in self._all.suite.tasks)

    @cached_property
    def is_two_sided(self) -> bool:
        """Whether the attacked texts have edits that change the label: an oracle's, or people's of enough of them."""
        return self._has_oracle or all(self._edited_share(name) >= LEAST_EDITED for name in self._all.suite.tasks)

    def _edited_share(self, task: str) -> float:
        """Return the share of a task's test texts that are originals of its contrast set; 0 where there is none."""
        if task not in self._contrast_sets:
            return 0.0
        from rbench.tasks.clean import hash_texts

        spec = self._all.tasks[task]
        contrast_set = open_contrast(
            loading.load_contrast(self._contrast_sets[task], self.registry), spec, self.options.data
        )
        originals = {hash_texts(spec, bundle.original.texts) for bundle in contrast_set.rows}
        test = RowCache(self.options.data).task(spec).split("test")
        return sum(hash_texts(spec, example.texts) in originals for example in test) / max(1, len(test))

    @cached_property
    def _contrast_sets(self) -> dict[str, str]:
        """By task the contrast set that it names, where the set is here."""
        found = {}
        for name in self._all.suite.tasks:
            asked = self._all.tasks[name].contrast
            if asked is not None and not self.embedded:
                with suppress(ResourceError):
                    locate_contrast(loading.load_contrast(asked, self.registry), self.options.data)
                    found[name] = asked
        return found

    @cached_property
    def similarity(self) -> tuple[str, int] | None:
        """The task of similarity and the number of its pairs; None where there is none."""
        return self._first("sts", SIMILARITY_TASKS[self.embedded])

    def where(self, part: str) -> Options:
        """Return the options of a part: the folder that a user names is that of the main one."""
        out = self.options.out
        if part == "main" or out is None:
            return self.options
        return dataclasses.replace(self.options, out=out.with_name(f"{out.name}-{part}"))

    def folder(self, part: str) -> Path | None:
        """Return the folder of the RUN of a part; None where there is no such part."""
        suite = self._main_suite if part == "main" else self.suites.get(part)
        return None if suite is None else self.where(part).out or Path("results") / "runs" / str(suite["name"])

    def _suite(self, names: Sequence[str], tasks: Sequence[TaskGiven], attacks: list[Any], n: int) -> dict[str, Any]:
        title, task_list = _join_for_people([model.name for model in self.models]), _join_for_people(names)
        suite: dict[str, Any] = {
            "name": re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join(("eval", self.models[0].name, *names[:MAX_NAMES]))),
            "title": f"Evaluation of {title} on {task_list}",
            "tasks": list(tasks),
            "attacks": attacks,
            "seeds": [self.seed],
            "num_examples": n,
            "training": TRAINING,
            "resources": "mini" if self.embedded else self.resource_set or RESOURCE_SETS[-1],
        }
        for model in self.models:
            suite.setdefault(model.kind, []).append(model.entry)
        return suite | ({"finetune": [self.finetune]} if "encoders" in suite else {})

    def _load_suite(self, suite: dict[str, Any]) -> loading.LoadedSuite:
        return loading.load_mapping(call_options.as_plain_data(suite), registry=self.registry, origin="rbench eval")

    def _remedies(self, needs: Iterable[str], resource_set: str) -> list[str]:
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

    def _note_missing(self, label: str, why: Sequence[str]) -> None:
        names = ["exact"] if label.startswith(EXHAUSTIVE) else [f"aua-{label}", f"asr-{label}"]
        names += ["ndcg", "ndcg-attacked"] if label == self.ranked_by else []
        self.missing |= dict.fromkeys(names, "; ".join(why))

    def _first(self, what: str, names: Sequence[str]) -> tuple[str, int] | None:
        """Return the first task whose rows are here or on the hub, and how many there are; say why there is none."""
        ids = ["sts"] if what == "sts" else ["ndcg", "ndcg-attacked"]
        if not self.vectors:
            other = next(model for model in self.models if model.kind == "victims")
            self.missing |= dict.fromkeys(
                ids, f"{other.name} is a classifier: it gives labels, and no vectors to compare"
            )
            return None
        why = []
        for name in names:
            try:
                rows = RowCache(self.options.data).task(loading.load_task(name, self.registry))
                return name, rows.sizes["test"]
            except ResourceError as error:
                why.append(str(error))
        self.missing |= dict.fromkeys(ids, why[0])
        return None

    @property
    def asked(self) -> tuple[CardMetric, ...]:
        """The numbers of a card, in its order."""
        attacks = self._all.attacks
        titles = {name: attacks[name].short or attacks[name].title or name for name in self.attacks if name in attacks}
        several = len(self.sizes) > 1
        task_metrics = [
            metric for task in self.sizes for metric in self._asked_of(task, titles, f" on {task}" if several else "")
        ]
        similar, ranking, by = self._task_for("sts"), self._task_for("ranking"), self.ranked_by or ""
        return (
            *task_metrics,
            CardMetric("sts", f"Similarity ({similar}, Spearman)", "sts", "main", similar, None, _STS),
            CardMetric("ndcg", f"Ranking ({ranking}, nDCG@10)", "ndcg_before", "ranking", ranking, by, _NDCG),
            CardMetric(
                "ndcg-attacked",
                f"Ranking under {titles.get(by, 'attack')} (nDCG@10)",
                "ndcg_after",
                "ranking",
                ranking,
                by,
                _ATTACKED,
            ),
        )

    def _asked_of(self, task: str, titles: Mapping[str, str], on: str) -> Iterator[CardMetric]:
        """Yield the numbers of one task. `on` ends their titles where there are several tasks."""
        exact = Choice.model_validate(dict(ONE_WORD_SPACE)).label
        yield CardMetric("clean", f"Clean accuracy{on}", "clean", "main", task, None, _CLEAN)
        for attack in titles:
            sentence, title = _AUA.format(how=ATTACK_DESCRIPTIONS.get(attack, f"by {titles[attack]}")), titles[attack]
            yield CardMetric(f"aua-{attack}", f"Accuracy under {title}{on}", "aua", "main", task, attack, sentence)
            yield CardMetric(f"asr-{attack}", f"Success rate of {title}{on}", "asr", "main", task, attack, _ASR)
        yield CardMetric("exact", f"Exact success rate, one word{on}", "asr", "main", task, exact, _EXACT)
        yield CardMetric(
            "noise", f"Accuracy with typing errors{on}", "noise", "main", self._noise_task(task), None, _NOISE
        )
        strongest = self.ranked_by
        is_two_sided = self.is_two_sided and strongest in self.available_attacks
        if task in self._contrast_sets:
            yield CardMetric("sensitivity", f"Edits followed{on}", "sensitivity", "main", task, None, _SENSITIVITY)
        elif is_two_sided:
            yield CardMetric("followed", f"Edits followed{on}", "followed", "main", task, strongest, _FOLLOWED)
        if is_two_sided:
            by = titles.get(strongest or "", "attack")
            yield CardMetric("two-sided", f"Two-sided, with {by}{on}", "two_sided", "main", task, strongest, _TWO_SIDED)

    def _noise_task(self, task: str) -> str:
        """Return what names the accuracy on a task with typing errors, as claims do."""
        label = f"typos@{NOISE_OPTIONS['degrees'][0]:g}"
        return label if len(self.sizes) == 1 else f"{task}/{label}"

    def _task_for(self, part: str) -> str:
        """Return the name of the task that a number is of; where there is none, that of the one that was looked for."""
        if part == "sts":
            return SIMILARITY_TASKS[self.embedded][0]
        if part == "ranking":
            return self.suites["ranking"]["tasks"][0] if "ranking" in self.suites else RANKING_TASKS[self.embedded][0]
        return next(iter(self.sizes))

    @property
    def guesses(self) -> list[str]:
        """What nobody said and was found out, a line each. What is guessed of tables, planning notes."""
        how = {"encoders": f"an encoder (fine-tuning: {self.finetune})", "victims": "a classifier, attacked as it is"}
        lines = [f"{model.name}: {how[model.kind]}{self._order_of_outputs(model)}" for model in self.models]
        left = [name for name in self.attacks if name not in self.available_attacks]
        if left:
            lines.append(f"left out, since something is missing (rbench status --environment --fix): {', '.join(left)}")
        return [*lines, f"resources behind attacks: the resource set {self.resources}"]

    def _order_of_outputs(self, model: ContestantModel) -> str:
        """Say which labels the numbers are for that a function gives; empty for other models, and for several tasks."""
        if len(self.sizes) > 1 or not (isinstance(model.entry, Mapping) and "function" in model.entry):
            return ""
        (task,) = self._all.tasks.values()
        remedy = " (--labels changes it)" if is_path(task_name(self.tasks[0])) else ""
        return f"; the numbers that it gives are for {', '.join(task.labels)}, in this order{remedy}"

    @property
    def notes(self) -> list[str]:
        """How the numbers came about, a sentence each."""
        main = self.suites["main"]
        sentences = []
        if "encoders" in main:
            how = {"probe": "kept frozen below a linear head", "clean": "fine-tuned with a linear head"}
            made_by = how.get(self.finetune, f"fine-tuned with a linear head (strategy {self.finetune})")
            rows = f"at most {TRAINING['max_train']:,} training texts"
            sentences.append(f"The classifier is the encoder, {made_by}. It saw {rows}, with one seed.")
        if self.embedded:
            sentences.append(
                "The texts are of the embedded world, a small made-up language: nothing here says anything of English."
            )
        elif any(model.english is None for model in self.models):
            sentences.append("Nothing tells which language a model behind a function or an address reads.")
        if any(isinstance(model.entry, Mapping) and model.entry.get("version") for model in self.models):
            sentences.append(
                "A function or an address has no version here: stored answers are taken while a fixed probe is "
                "answered alike. --fresh asks again."
            )
        sentences.append(f"Word lists and models behind the attacks: the resource set {main['resources']}.")
        return sentences


def label_in_suite(model: ContestantModel, models: Sequence[ContestantModel], suite: Suite) -> str:
    """Return the name that one of the models has in a suite of them all."""
    same_kind = [candidate for candidate in models if candidate.kind == model.kind]
    return (suite.encoders if model.kind == "encoders" else suite.victims)[same_kind.index(model)]


def _attack_entry(attack: str) -> Any:
    """Return what a suite has for an attack of `--attacks`."""
    return dict(ONE_WORD_SPACE) if attack == EXHAUSTIVE else attack


def _join_for_people(names: Sequence[str]) -> str:
    """Write names for people: all of a few, else the first and how many more."""
    if len(names) > MAX_NAMES:
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
_FOLLOWED = (
    "Given the new label after an edit that changes it: {hits} of {n} edits of texts that were right. A model that "
    "reads little of a text is hard to fool, and follows few."
)
_TWO_SIDED = (
    "Right, not fooled by the attack, and right again after an edit that changes the label: {hits} of {n} texts."
)
_SENSITIVITY = (
    "Given the new label after people changed the text and its label: {value}% of the edits of {n} texts that were "
    "right. A model that reads little of a text is hard to fool, and follows few."
)
_STS = "How well the vectors order {n} pairs of sentences by likeness, as people do: 100 is perfect, 0 is chance."
_NDCG = "How high the relevant documents stand among the first ten, over {n} queries: 100 is perfect."
_ATTACKED = "The same queries, each at the worst text that the attack found, also where it failed."
