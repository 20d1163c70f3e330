"""Ask a classifier of every success what people were asked of some, so that both are joined (`--metric powered`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rbench.api.call_options import options_of
from rbench.api.reopened import reopened
from rbench.errors import JobError, StoreError
from rbench.plan.prepare import Options
from rbench.schema import Job, Outcome, Plan, TaskSpec, content_key
from rbench.schema.judged import Judged, Proxy, Said
from rbench.schema.judges import JudgeSpec, Question
from rbench.schema.unlisted import known_as
from rbench.store import judged
from rbench.store.runs import Store
from rbench.store.runs.packed import Packed
from rbench.store.runs.reader import JUDGED
from rbench.store.runs.store import folder_path
from rbench.tables.results import plan_of

log = logging.getLogger("rbench")

ROUND = 256
"""Texts that are asked for together. What is answered of them is kept, whatever becomes of later ones."""
Probabilities = Callable[[Sequence[tuple[str, ...]]], list[Any]]
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


class _Attack(NamedTuple):
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
    from rbench.report.sheet import closed

    store, how = Store(folder_path(run)), options_of(options, settings)
    plan = plan_of(store)
    if isinstance(store.opened(), Packed):
        remedy = f"Unpack it first: rbench pack {store.root} --unpack"
        raise StoreError(f"{store.root} is packed, and stays as it is. {remedy}")
    said = judged.read(store)
    if said is None:
        raise StoreError(
            f"nobody has judged {store.root}, and only people's answers measure the error of a proxy. Ask them first: "
            "rbench judge export"
        )
    if wrong := next(judged.unlike(store, plan, said.sheet), None):
        raise StoreError(f"{store.root / JUDGED} does not fit its RUN: {wrong}. rbench verify says more")
    attacks = [*_attacks(store, plan, said)]
    if any(one.perturbed is None or one.original is None for of in attacks for one in of.outcomes):
        raise StoreError(f"{store.root} keeps no texts, so no proxy can be asked. Name the RUN that it is a copy of.")
    proxy = (
        _Victims(store, plan, by, how) if known_as(by, {*plan.suite.lineup}) in plan.suite.lineup else _judge(by, how)
    )
    tasks = {of.task.name: of.task for of in attacks}
    licences = closed([*tasks.values()]) if proxy.leaves else []
    for task in licences:
        log.warning("no licence clearly allows to pass on the texts of %s, and an address is asked about them", task)
    before = {one.name: one for one in said.proxies}.get(proxy.name)
    known = dict(before.said) if before is not None and before.mark == proxy.mark else {}
    asked = unusable = 0
    total = sum(len(of.outcomes) for of in attacks) - sum(map(len, known.values()))
    try:
        for of in attacks:
            done = {one.example for one in known.get(of.job.key, ())}
            open_ = [one for one in of.outcomes if one.example_id not in done]
            for start in range(0, len(open_), ROUND):
                found = proxy.said(of, open_[start : start + ROUND])
                known[of.job.key] = (*known.get(of.job.key, ()), *found)
                asked += len(found)
                unusable += sum(one.label is None and one.meaning is None for one in found)
                log.info("%s was asked about %d of %d successes", proxy.name, asked, total)
    finally:
        if asked:  # answers may have been imported meanwhile
            now, new = judged.read(store) or said, Proxy(name=proxy.name, mark=proxy.mark, said=known)
            others = (one for one in now.proxies if one.name != proxy.name)
            judged.write(store, now.model_copy(update={"proxies": (*others, new)}))
    return AskedProxy(store.root / JUDGED, proxy.name, asked, unusable, tuple(licences))


def _attacks(store: Store, plan: Plan, said: Judged) -> Iterator[_Attack]:
    keys = dict.fromkeys(key for item in said.sheet.items if item.kind in ("changed", "pair") for key, _ in item.uses)
    for job in (plan.job(key) for key in keys):
        if (task := judged.classes_of(job)) is not None:
            yield _Attack(job, task, tuple(one for one in store.outcomes(job) if one.status == "succeeded"))


class _Victims:
    """The victims of one encoder of the RUN, each asked about the texts that fooled others of its task and seed."""

    leaves = False

    def __init__(self, store: Store, plan: Plan, by: str, options: Options) -> None:
        self.store, self.plan, self.options = store, plan, options
        self.name = known_as(by, {*plan.suite.lineup})
        self._opened: dict[str, Any] = {}
        own = [job for job in plan.attacks if plan.draw(job.parts[0]).encoder == self.name]
        self.mark = content_key(sorted({f"{job.needs['victim']} {self._weights(job)}" for job in own}))[:32]
        self._by_place = {(job.parts[1], job.parts[2], job.seed): job for job in reversed(own)}

    def _weights(self, job: Job) -> str:
        record = self.store.record(job)
        return record.provenance.weights_hash or "" if record is not None else ""

    def said(self, of: _Attack, outcomes: Sequence[Outcome]) -> list[Said]:
        attack = self._by_place.get((of.job.parts[1], of.job.parts[2], of.job.seed))
        if attack is None:
            raise StoreError(f"{self.name} has no victim on {of.job.parts[1]} with the seed {of.job.seed} in this RUN")
        key = attack.needs["victim"]
        if key not in self._opened:
            victim = reopened(self.plan.job(key), of.task, self._weights(attack), self.options)
            if isinstance(victim, str):
                raise StoreError(victim)
            self._opened = {key: victim}
        texts = [one.perturbed or () for one in outcomes]
        opening = self.plan.job(key).opening
        rows = _softmaxed(self._opened[key], texts, logits=opening is None or opening.victim.origin == "model")
        return [_of(one, row, None, ()) for one, row in zip(outcomes, rows, strict=True)]


@dataclass
class _Judge:
    """A judge, opened for each task that it is asked about."""

    spec: JudgeSpec
    options: Options
    mark: str
    _opened: dict[tuple[str, str], Probabilities] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def leaves(self) -> bool:
        """Whether texts leave this machine."""
        return any(one is not None and one.origin == "endpoint" for one in (self.spec.label, self.spec.meaning))

    def said(self, of: _Attack, outcomes: Sequence[Outcome]) -> list[Said]:
        labels: Sequence[Any] = [None] * len(outcomes)
        meanings: Sequence[Any] = labels
        columns = of.task.columns
        if (label := self.spec.label) is not None:
            together = label.joined and len(columns) > 1
            task = of.task.model_copy(update={"kind": "single", "columns": ("text",)}) if together else of.task
            texts = [one.perturbed or () for one in outcomes]
            texts = [(_joined(columns, text),) for text in texts] if together else texts
            labels = self._asked("label", label, task)(texts)
        if (meaning := self.spec.meaning) is not None:
            task = TaskSpec(name=of.task.name, kind="nli", columns=("first", "second"), labels=meaning.classes)
            pairs = [(_joined(columns, one.original or ()), _joined(columns, one.perturbed or ())) for one in outcomes]
            meanings = self._asked("meaning", meaning, task)(pairs)
        kept = [meaning.classes.index(name) for name in meaning.kept] if meaning is not None else []
        return [_of(one, row, pair, kept) for one, row, pair in zip(outcomes, labels, meanings, strict=True)]

    def _asked(self, which: str, question: Question, task: TaskSpec) -> Probabilities:
        if (which, task.name) not in self._opened:
            self._opened[which, task.name] = _opened(question, task, self.options)
        return self._opened[which, task.name]


def _judge(by: str, options: Options) -> _Judge:
    from rbench.config.entries import chosen_judge
    from rbench.config.registry import Registry
    from rbench.victims.place import located, source_of

    spec = chosen_judge(by, Registry(options.include))
    marks: dict[str, object] = {}
    for name in ("label", "meaning"):
        if (one := getattr(spec, name)) is not None:
            weights = located(one, options.models).fingerprint if one.origin == "model" else source_of(one)
            marks[name] = [content_key(one), weights]
    return _Judge(spec, options, content_key(marks)[:32])


def _opened(question: Question, task: TaskSpec, options: Options) -> Probabilities:
    """Open what answers a question on a task. Raises ResourceError and SuiteError where that fails."""
    from rbench.execution.run import device_of

    if question.origin == "model":
        from rbench.recipes.engine import EngineConfig, open_victim
        from rbench.store.weights import default_cache
        from rbench.victims.place import locate

        device, backends = device_of(options.device), default_cache() / "backends.json"
        config = EngineConfig(device, options.backend, backends_file=backends)
        victim = open_victim(question, locate(question, task, options.models).where, task, question.name, config)
        return lambda texts: _softmaxed(victim, texts, logits=True)
    from rbench.errors import AnswerError
    from rbench.victims.remote_classifier import MOST_ERRORED, open_answers

    if question.endpoint is not None:
        body = _filled(question.endpoint.body, ", ".join(task.labels))
        question = question.model_copy(update={"endpoint": question.endpoint.model_copy(update={"body": body})})
    answers = open_answers(question, task)

    def asked(texts: Sequence[tuple[str, ...]]) -> list[Any]:
        rows = answers.each(texts)
        failed = [row for row in rows if isinstance(row, AnswerError)]
        if len(failed) > max(1, MOST_ERRORED * len(rows)):
            raise JobError(f"{len(failed)} of {len(rows)} answers cannot be used, such as: {failed[0]}")
        return [None if isinstance(row, AnswerError) else row for row in rows]

    return asked


def _softmaxed(victim: Any, texts: Sequence[tuple[str, ...]], *, logits: bool) -> list[Any]:
    rows = victim([text if len(text) > 1 else text[0] for text in texts])
    return [*(rows.softmax(dim=1) if logits else rows).double().numpy()]


def _filled(node: Any, labels: str) -> Any:
    """Return the body of a request with the labels in place of `{labels}`."""
    if isinstance(node, Mapping):
        return {key: _filled(value, labels) for key, value in node.items()}
    if isinstance(node, list):
        return [_filled(entry, labels) for entry in node]
    return node.replace("{labels}", labels) if isinstance(node, str) else node


def _joined(columns: Sequence[str], text: Sequence[str]) -> str:
    """Return a text of several columns as one."""
    return text[0] if len(text) == 1 else "\n".join(map(": ".join, zip(columns, text, strict=True)))


def _of(outcome: Outcome, label: Any, meaning: Any, kept: Sequence[int]) -> Said:
    def share(value: float) -> float:
        return min(1.0, max(0.0, float(value)))

    true = None if label is None or outcome.label is None else share(label[outcome.label])
    same = None if meaning is None else share(np.sum([meaning[place] for place in kept]))
    return Said(example=outcome.example_id, label=true, meaning=same)
