"""Ask a classifier of every success what people were asked of some, so that both are joined (`--metric powered`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rbench.api.call_options import resolve_options
from rbench.api.reopened import reopen_victim
from rbench.errors import JobError, StoreError
from rbench.plan.prepare import Options
from rbench.schema import Job, Outcome, Plan, TaskSpec, content_key
from rbench.schema.judged import HumanJudgements, Proxy, ProxyAnswer
from rbench.schema.judges import JudgeSpec, Question
from rbench.schema.unlisted import label_meant
from rbench.store import judged
from rbench.store.runs import RunStore
from rbench.store.runs.packed import PackedFolder
from rbench.store.runs.reader import JUDGED
from rbench.store.runs.store import folder_path
from rbench.tables.results import load_plan

log = logging.getLogger("rbench")

ROUND = 256
"""Texts that are asked for together. What is answered of them is kept, whatever becomes of later ones."""
AskProbabilities = Callable[[Sequence[tuple[str, ...]]], list[Any]]
"""Returns the probabilities (labels,) of each text, or an `AnswerError`."""


@dataclass(frozen=True)
class AskedProxy:
    """What a proxy was asked."""

    path: Path
    name: str
    asked: int
    """Successes that it was asked about now; those that it had answered before are not asked again."""
    unusable: int
    """Those to which no answer could be read. They count as 1/2."""
    closed: tuple[str, ...]
    """Of an endpoint: tasks whose licence does not clearly allow to pass their texts on."""


class _JudgedAttack(NamedTuple):
    """An attack that people judged, with the successes that its proxy is asked about."""

    job: Job
    task: TaskSpec
    outcomes: tuple[Outcome, ...]


def ask_proxy(run: Path | str, by: str, options: Options | None = None, **settings: Any) -> AskedProxy:
    """Ask a proxy about all successes of the attacks that people judged, and keep what it says with the RUN.

    Args:
        run: the folder of a RUN that people judged.
        by: a judge, by its name or the path of its YAML file; or an encoder or classifier of the RUN's own suite, whose
            victim with the same task, strategy and seed then says which label it sees.
        options: `include`, `models`, `device` and `backend` count.
        settings: single options by name.

    Raises:
        StoreError: nobody judged the RUN, it keeps no texts, or is packed; or the proxy's weights are not here.
        SuiteError: there is no such judge, or its file is wrong.
        ResourceError: a model or function is not found, or an environment variable is not set.
        JobError: it failed. What it had said before is kept, and the same call goes on.
    """
    from rbench.report.sheet import list_closed_tasks

    store, proxy_options = RunStore(folder_path(run)), resolve_options(options, settings)
    plan = load_plan(store)
    if isinstance(store.opened(), PackedFolder):
        remedy = f"Unpack it first: rbench pack {store.root} --unpack"
        raise StoreError(f"{store.root} is packed, and stays as it is. {remedy}")
    human_judgements = judged.read_judgements(store)
    if human_judgements is None:
        raise StoreError(
            f"nobody has judged {store.root}, and only people's answers measure the error of a proxy. Ask them first: "
            "rbench judge export"
        )
    if wrong := next(judged.find_mismatches(store, plan, human_judgements.sheet), None):
        raise StoreError(f"{store.root / JUDGED} does not fit its RUN: {wrong}. rbench verify says more")
    attacks = [*_judged_attacks(store, plan, human_judgements)]
    if any(one.perturbed is None or one.original is None for attack in attacks for one in attack.outcomes):
        raise StoreError(f"{store.root} keeps no texts, so no proxy can be asked. Name the RUN that it is a copy of.")
    proxy = (
        _VictimProxy(store, plan, by, proxy_options)
        if label_meant(by, {*plan.suite.lineup}) in plan.suite.lineup
        else _open_judge(by, proxy_options)
    )
    tasks = {attack.task.name: attack.task for attack in attacks}
    licences = list_closed_tasks([*tasks.values()]) if proxy.leaves else []
    for task in licences:
        log.warning("no licence clearly allows to pass on the texts of %s, and an address is asked about them", task)
    before = {one.name: one for one in human_judgements.proxies}.get(proxy.name)
    answers_by_job = dict(before.said) if before is not None and before.mark == proxy.mark else {}
    asked = unusable = 0
    total = sum(len(attack.outcomes) for attack in attacks) - sum(map(len, answers_by_job.values()))
    try:
        for attack in attacks:
            done = {one.example for one in answers_by_job.get(attack.job.key, ())}
            unanswered = [one for one in attack.outcomes if one.example_id not in done]
            for start in range(0, len(unanswered), ROUND):
                answers = proxy.said(attack, unanswered[start : start + ROUND])
                answers_by_job[attack.job.key] = (*answers_by_job.get(attack.job.key, ()), *answers)
                asked += len(answers)
                unusable += sum(one.label is None and one.meaning is None for one in answers)
                log.info("%s was asked about %d of %d successes", proxy.name, asked, total)
    finally:
        # Kept also where a later round fails: what an endpoint has answered is paid for and is not asked again.
        if asked:  # answers may have been imported meanwhile
            judgements_now, new_proxy = (
                judged.read_judgements(store) or human_judgements,
                Proxy(name=proxy.name, mark=proxy.mark, said=answers_by_job),
            )
            others = (one for one in judgements_now.proxies if one.name != proxy.name)
            judged.write_judgements(store, judgements_now.model_copy(update={"proxies": (*others, new_proxy)}))
    return AskedProxy(store.root / JUDGED, proxy.name, asked, unusable, tuple(licences))


def _judged_attacks(store: RunStore, plan: Plan, human_judgements: HumanJudgements) -> Iterator[_JudgedAttack]:
    keys = dict.fromkeys(
        key for item in human_judgements.sheet.items if item.kind in ("changed", "pair") for key, _ in item.uses
    )
    for job in (plan.job(key) for key in keys):
        if (task := judged.find_classification_task(job)) is not None:
            yield _JudgedAttack(
                job, task, tuple(outcome for outcome in store.outcomes(job) if outcome.status == "succeeded")
            )


class _VictimProxy:
    """The victims of one encoder of the RUN, each asked about the texts that fooled others of its task and seed."""

    leaves = False

    def __init__(self, store: RunStore, plan: Plan, by: str, options: Options) -> None:
        self.store, self.plan, self.options = store, plan, options
        self.name = label_meant(by, {*plan.suite.lineup})
        self._opened: dict[str, Any] = {}
        attacks_on_encoder = [job for job in plan.attacks if plan.draw(job.parts[0]).encoder == self.name]
        self.mark = content_key(sorted({f"{job.needs['victim']} {self._weights(job)}" for job in attacks_on_encoder}))[
            :32
        ]
        self._by_place = {(job.parts[1], job.parts[2], job.seed): job for job in reversed(attacks_on_encoder)}

    def _weights(self, job: Job) -> str:
        record = self.store.record(job)
        return record.provenance.weights_hash or "" if record is not None else ""

    def said(self, judged: _JudgedAttack, outcomes: Sequence[Outcome]) -> list[ProxyAnswer]:
        attack = self._by_place.get((judged.job.parts[1], judged.job.parts[2], judged.job.seed))
        if attack is None:
            raise StoreError(
                f"{self.name} has no victim on {judged.job.parts[1]} with the seed {judged.job.seed} in this RUN"
            )
        key = attack.needs["victim"]
        if key not in self._opened:
            victim = reopen_victim(self.plan.job(key), judged.task, self._weights(attack), self.options)
            if isinstance(victim, str):
                raise StoreError(victim)
            self._opened = {key: victim}
        texts = [outcome.perturbed or () for outcome in outcomes]
        opening = self.plan.job(key).opening
        rows = _probabilities(self._opened[key], texts, logits=opening is None or opening.victim.origin == "model")
        return [_answer_of(outcome, row, None, ()) for outcome, row in zip(outcomes, rows, strict=True)]


@dataclass
class _JudgeProxy:
    """A judge, opened for each task that it is asked about."""

    spec: JudgeSpec
    options: Options
    mark: str
    _opened: dict[tuple[str, str], AskProbabilities] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def leaves(self) -> bool:
        """Whether texts leave this machine."""
        return any(
            question is not None and question.origin == "endpoint" for question in (self.spec.label, self.spec.meaning)
        )

    def said(self, judged: _JudgedAttack, outcomes: Sequence[Outcome]) -> list[ProxyAnswer]:
        labels: Sequence[Any] = [None] * len(outcomes)
        meanings: Sequence[Any] = labels
        columns = judged.task.columns
        if (label := self.spec.label) is not None:
            joined_columns = label.joined and len(columns) > 1
            task = (
                judged.task.model_copy(update={"kind": "single", "columns": ("text",)})
                if joined_columns
                else judged.task
            )
            texts = [outcome.perturbed or () for outcome in outcomes]
            texts = [(_join_columns(columns, text),) for text in texts] if joined_columns else texts
            labels = self._asked("label", label, task)(texts)
        if (meaning := self.spec.meaning) is not None:
            task = TaskSpec(name=judged.task.name, kind="nli", columns=("first", "second"), labels=meaning.classes)
            pairs = [
                (_join_columns(columns, outcome.original or ()), _join_columns(columns, outcome.perturbed or ()))
                for outcome in outcomes
            ]
            meanings = self._asked("meaning", meaning, task)(pairs)
        kept_classes = [meaning.classes.index(name) for name in meaning.kept] if meaning is not None else []
        return [
            _answer_of(outcome, label_row, meaning_row, kept_classes)
            for outcome, label_row, meaning_row in zip(outcomes, labels, meanings, strict=True)
        ]

    def _asked(self, which: str, question: Question, task: TaskSpec) -> AskProbabilities:
        if (which, task.name) not in self._opened:
            self._opened[which, task.name] = _open_question(question, task, self.options)
        return self._opened[which, task.name]


def _open_judge(by: str, options: Options) -> _JudgeProxy:
    from rbench.config.entries import chosen_judge
    from rbench.config.registry import Registry
    from rbench.victims.place import hash_source, locate_model

    spec = chosen_judge(by, Registry(options.include))
    marks: dict[str, object] = {}
    for name in ("label", "meaning"):
        if (question := getattr(spec, name)) is not None:
            weights = (
                locate_model(question, options.models).fingerprint
                if question.origin == "model"
                else hash_source(question)
            )
            marks[name] = [content_key(question), weights]
    return _JudgeProxy(spec, options, content_key(marks)[:32])


def _open_question(question: Question, task: TaskSpec, options: Options) -> AskProbabilities:
    """Open what answers a question on a task. Raises ResourceError and SuiteError where that fails."""
    from rbench.execution.run import resolve_device

    if question.origin == "model":
        from rbench.recipes.engine import EngineConfig, open_victim
        from rbench.store.weights import default_cache
        from rbench.victims.place import locate

        device, backends = resolve_device(options.device), default_cache() / "backends.json"
        config = EngineConfig(device, options.backend, backends_file=backends)
        victim = open_victim(question, locate(question, task, options.models).where, task, question.name, config)
        return lambda texts: _probabilities(victim, texts, logits=True)
    from rbench.errors import AnswerError
    from rbench.victims.remote_classifier import MAX_ERROR_SHARE, open_answers

    if question.endpoint is not None:
        body = _fill_labels(question.endpoint.body, ", ".join(task.labels))
        question = question.model_copy(update={"endpoint": question.endpoint.model_copy(update={"body": body})})
    answers = open_answers(question, task)

    def ask(texts: Sequence[tuple[str, ...]]) -> list[Any]:
        rows = answers.each(texts)
        failed = [row for row in rows if isinstance(row, AnswerError)]
        if len(failed) > max(1, MAX_ERROR_SHARE * len(rows)):
            raise JobError(f"{len(failed)} of {len(rows)} answers cannot be used, such as: {failed[0]}")
        return [None if isinstance(row, AnswerError) else row for row in rows]

    return ask


def _probabilities(victim: Any, texts: Sequence[tuple[str, ...]], *, logits: bool) -> list[Any]:
    rows = victim([text if len(text) > 1 else text[0] for text in texts])
    return [*(rows.softmax(dim=1) if logits else rows).double().numpy()]


def _fill_labels(node: Any, labels: str) -> Any:
    """Return the body of a request with the labels in place of `{labels}`."""
    if isinstance(node, Mapping):
        return {key: _fill_labels(value, labels) for key, value in node.items()}
    if isinstance(node, list):
        return [_fill_labels(entry, labels) for entry in node]
    return node.replace("{labels}", labels) if isinstance(node, str) else node


def _join_columns(columns: Sequence[str], text: Sequence[str]) -> str:
    """Return a text of several columns as one."""
    return text[0] if len(text) == 1 else "\n".join(map(": ".join, zip(columns, text, strict=True)))


def _answer_of(outcome: Outcome, label: Any, meaning: Any, kept_classes: Sequence[int]) -> ProxyAnswer:
    def share(value: float) -> float:
        return min(1.0, max(0.0, float(value)))

    true = None if label is None or outcome.label is None else share(label[outcome.label])
    same = None if meaning is None else share(np.sum([meaning[place] for place in kept_classes]))
    return ProxyAnswer(example=outcome.example_id, label=true, meaning=same)
