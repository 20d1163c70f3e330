"""Collects the flags behind a table: those of the trainings, fine-tunings and attacks from which its entries come.

A flag holds for everything that stands on the job that raised it: a saturated training for the encoders trained on top
of it, for their victims and for the attacks on these. docs/health.md says what each flag means and when it is raised.
Where a suite says `require: healthy`, an entry with a flag is withheld. Flags of a control hide nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rbench.schema import FLAGS, EncoderSpec, Flag, Health, Job, Plan, Raised, Record
from rbench.store.runs import Reader
from rbench.tables.formats import NAMED, brief, listed
from rbench.tables.table import Number
from rbench.tables.weak import OF_SEARCHES, Weak

MEANINGS: dict[Flag, str] = {
    "saturated": "the training's loss was too small to teach anything",
    "no adversary": "the perturbation did no more than a random one of its size, or than dropout",
    "head did not learn": "the training's head told pairs apart no better than chance",
    "perturbation dead": "most perturbations were next to zero",
    "starved of candidates": "most words that the attack wanted to replace had no candidate",
    "weak search": "a complete search of the attack's space fools the victim on far more texts",
    "budget hit": "the queries of many texts were spent before their space was",
    "few candidates": "with twice as many candidates of a word it fools the victim on far more texts",
    "no better than random": "in a random order of words it does as much",
    "gradient masking": "by the order of gradients it does no more than in a random one",
    "transfer beats direct": "texts made against another victim fool this one far more often",
    "not deterministic": "the victim answers the same text in several ways",
    "near chance": "the accuracy cannot be told from that of always giving the most frequent label",
    "labels exchanged": "the classifier is right far more often if its labels change places",
}
_DELTAS = ("delta ratio", "adversarial cosine", "dropout cosine")
"""Names of measurements of a training with perturbations, of which a note shows the last."""
OF_ATTACKS: tuple[Flag, ...] = ("starved of candidates", *OF_SEARCHES)
"""The flags that attacks raise; others are of trainings and victims."""
VOIDING: tuple[Flag, ...] = ("near chance", *OF_ATTACKS)
"""The flags with which a gate's numbers say nothing, whatever the suite requires."""

HEALTH_UNKNOWN = "Health not known"
"""Begins the note on results whose own training, victim or attack has no record any more."""


def shown(told: list[str] | None) -> str | None:
    """Write what `Flags.told` returns into one field: flags joined by `; `, `none`, or nothing where unknown."""
    return None if told is None else "; ".join(told) or "none"


@dataclass(frozen=True)
class Flags:
    """The flags of the jobs of a plan, and of what stands on them."""

    plan: Plan
    records: Mapping[str, Record]
    """Records by job key."""
    store: Reader | None = None
    """Where outcomes are, for the flags that compare attacks text by text; None: those are not raised."""

    @cached_property
    def _jobs(self) -> dict[str, Job]:
        return {job.key: job for job in self.plan.jobs}

    @cached_property
    def _order(self) -> dict[str, int]:
        return {job.key: i for i, job in enumerate(self.plan.jobs)}

    def of(self, jobs: Iterable[Job]) -> tuple[Flag, ...]:
        """Return the flags of some jobs and of all that they stand on, each once."""
        raised = {one.flag for job in self.behind(jobs) for one in self._raised(job)}
        return tuple(flag for flag in FLAGS if flag in raised)

    def told(self, jobs: Iterable[Job]) -> list[str] | None:
        """Return the same for programs; None where there are none and the health of a job behind them is not known."""
        asked = list(jobs)
        found = self.of(asked)
        known = all(self._health(job) is not None for job in self.behind(asked) if job.has_health)
        return list(found) if found or known else None

    def hiding(self, jobs: Iterable[Job], attacks: bool = True) -> tuple[Flag, ...]:
        """Return the flags that withhold an entry made of some jobs: none unless the suite requires healthy ones.

        Flags of the encoder and its victim do not count where the encoder is a control, nor those of the attack where
        the attack is one, or where `attacks` is false because the entry is not about the attack.
        """
        return self.against(jobs, attacks) if self.plan.suite.require == "healthy" else ()

    def on(self, number: Number, jobs: Iterable[Job], attacks: bool = True) -> Number:
        """Return a number that is made of some jobs with what flags do to it: it is withheld, or marked.

        Flags of controls withhold nothing, but a flagged control is marked, and never the best. All numbers of tables
        and figures get their marks here, or from the numbers of which they are an average.

        Args:
            attacks: whether the number is about the attack, so that the flags of the attack itself concern it.
        """
        asked = list(jobs)
        of = asked if attacks else [self._jobs.get(job.needs.get("victim", ""), job) for job in asked]
        found = number.hidden(self.hiding(asked, attacks))
        return replace(found, flagged=number.flagged or bool(found.withheld) or bool(self.of(of)))

    def against(self, jobs: Iterable[Job], attacks: bool = True, trainings: bool = True) -> tuple[Flag, ...]:
        """Return the flags for which a suite that requires healthy ones would withhold an entry; see `hiding`.

        Args:
            trainings: whether those of the training of an encoder count.
        """
        parts = [part for job in jobs for part in self._answerable(job, attacks)]
        if trainings:
            raised = {one.flag for part in parts for one in self._raised(part)}
        else:
            raised = {one.flag for part in parts if part.pretraining is None for one in self._measured(part)}
        return tuple(flag for flag in FLAGS if flag in raised)

    def voiding(self, jobs: Iterable[Job], attacks: bool = True) -> tuple[Flag, ...]:
        """Return the flags for which a gate says nothing of some jobs; see `against`."""
        found = self.against(jobs, attacks)
        return found if self.plan.suite.require == "healthy" else tuple(flag for flag in found if flag in VOIDING)

    def unrecorded(self, jobs: Iterable[Job]) -> bool:
        """Whether the record of a victim behind some jobs is missing or damaged."""
        victims = (job for job in self.behind(jobs) if job.victim is not None)
        return any(job.key not in self.records for job in victims)

    def lost(self, jobs: Iterable[Job], attacks: bool = True, trainings: bool = True) -> list[str]:
        """Return the names of the jobs whose flags would count (`against`) and whose records are missing or damaged."""
        found = {part.key: part for job in jobs for part in self._answerable(job, attacks) if part.has_health}
        counted = (part for part in found.values() if trainings or part.pretraining is None)
        return [part.name for part in counted if part.key not in self.records]

    def notes(self, jobs: Iterable[Job]) -> tuple[str, ...]:
        """Return the notes on health below a table that shows some jobs: flags, deltas, and what was never measured."""
        asked = list(jobs)
        behind = self.behind(asked)
        return (*self.raised_notes(asked), *self._deltas(behind), *self._gaps(behind), *self._lost(asked))

    def raised_notes(self, jobs: Iterable[Job]) -> list[str]:
        """Return a note for each flag of some jobs and of all that they stand on."""
        asked = list(jobs)
        notes = []
        for flag in self.of(asked):
            groups: dict[str, list[tuple[Job, Raised]]] = {}
            given: dict[str, str] = {}
            for job in self.behind(asked):
                for one in self._measured(job):
                    if one.flag == flag:
                        groups.setdefault("/".join(job.parts), []).append((job, one))
                given |= {self._encoder(job): one.because for one in _given(job) if one.flag == flag}
            named = [f"{name} ({because})" for name, because in given.items()]
            named += [self._named(name, found, asked) for name, found in groups.items()]
            more = f"; and {len(named) - NAMED} more" if len(named) > NAMED else ""
            notes.append(f"Flagged {flag} ({MEANINGS[flag]}): {'; '.join(named[:NAMED])}{more}.")
        return notes

    def listed(self, jobs: Iterable[Job]) -> tuple[dict[str, Any], ...]:
        """Return every flag behind some jobs for programs: the flag, its job, and why it was raised.

        A flag of weights that are given has the encoder's name in place of a job's.
        """
        behind = self.behind(jobs)
        given = {(self._encoder(job), one.flag): one for job in behind for one in _given(job)}
        return (
            *({"job": name, **one.model_dump()} for (name, _), one in given.items()),
            *({"job": job.name, **one.model_dump()} for job in behind for one in self._measured(job)),
        )

    def _raised(self, job: Job) -> tuple[Raised, ...]:
        return (*_given(job), *self._measured(job))

    def _measured(self, job: Job) -> tuple[Raised, ...]:
        health = self._health(job)
        return (*(health.flags if health is not None else ()), *self._weak.raised(job))

    @cached_property
    def _weak(self) -> Weak:
        return Weak(self.plan, self.records, self.store)

    def _encoder(self, job: Job) -> str:
        return self.plan.draw(job.parts[0]).encoder

    def _health(self, job: Job) -> Health | None:
        record = self.records.get(job.key)
        return record.health if record is not None else None

    def behind(self, jobs: Iterable[Job]) -> list[Job]:
        """Return some jobs and all that they stand on, each once, in the plan's order."""
        found: set[str] = set()
        todo = [job.key for job in jobs]
        while todo:
            key = todo.pop()
            if key not in found and key in self._jobs:
                found.add(key)
                todo += self._jobs[key].needs.values()
        return [self._jobs[key] for key in sorted(found, key=self._order.__getitem__)]

    def _answerable(self, job: Job, attacks: bool) -> list[Job]:
        """Return the jobs whose flags withhold an entry made of `job`: all behind it but those of a control."""
        role = "victim" if "victim" in job.needs else "encoder"
        below = self._jobs.get(job.needs.get(role, ""))
        theirs = self.behind([below]) if below is not None else []
        own = [one for one in self.behind([job]) if one not in theirs]
        return [
            *([] if self._control_encoder(job, below) else theirs),
            *([] if job.attacking is not None and (job.attacking.attack.control or not attacks) else own),
        ]

    def _control_encoder(self, job: Job, below: Job | None) -> bool:
        """Whether the encoder, or the classifier that exists, is a control."""
        of = job if job.untuned else below
        return of is not None and of.entry is not None and of.entry.control

    def _named(self, name: str, found: list[tuple[Job, Raised]], asked: list[Job]) -> str:
        """Name the jobs of one group, which differ in their seeds, why the first is flagged, and what stands on it."""
        job, first = found[0]
        same = [one for one in self.plan.jobs if (one.stage, one.parts) == (job.stage, job.parts)]
        seeds = ", ".join(str(one.seed) for one, _ in found)
        which = f" seed{'s' * (len(found) > 1)} {seeds}" if len(same) > 1 else ""
        why = f"seed {job.seed}: {first.because}" if len(found) > 1 else first.because
        on = ""
        if job.pretraining is not None:
            above = dict.fromkeys(one.parts[0] for one in asked if job in self.behind([one]))
            others = [other for other in above if other != job.parts[0]]
            on = f"; behind {', '.join(others)}" if others else ""
        return f"{name}{which} ({why}{on})"

    def _deltas(self, behind: list[Job]) -> list[str]:
        """Return a note on how strongly trainings with an adversary perturbed their inputs at the end."""
        told = []
        for job in behind:
            health = self._health(job)
            if job.pretraining is None or health is None:
                continue
            last = {**health.values}
            for measured in health.series:
                last |= measured.values
            values = [f"{name} {brief(last[name])}" for name in _DELTAS if name in last]
            same = [one for one in self.plan.jobs if (one.stage, one.parts) == (job.stage, job.parts)]
            told += [f"{job.parts[0]}{f' seed {job.seed}' * (len(same) > 1)} {', '.join(values)}"] if values else []
        if not told:
            return []
        return [
            "Perturbations when last measured in training (delta ratio: their norm by the norm of what they are added "
            "to; adversarial cosine: of clean and perturbed vectors; dropout cosine: of two dropout views): "
            f"{'; '.join(told)}."
        ]

    def _lost(self, asked: list[Job]) -> list[str]:
        """Return a note on jobs that results stand on and whose own records are missing or damaged."""
        done = [job for job in asked if job.key in self.records and self.records[job.key].status == "complete"]
        behind = (job for job in self.behind(done) if job.has_health)
        lost = [job.name for job in behind if job.key not in self.records]
        return [f"{HEALTH_UNKNOWN}, since the record is missing or damaged: {listed(lost)}."] if lost else []

    def _gaps(self, behind: list[Job]) -> list[str]:
        """Return a note on fine-tunings without a health: those of a user's strategy that gives no accuracy."""
        tuned = (self.records.get(job.key) for job in behind if job.tuning is not None)
        n = sum(one is not None and one.status == "complete" and one.health is None for one in tuned)
        said = "a fine-tuning, whose strategy gives" if n == 1 else f"{n} fine-tunings, whose strategies give"
        return [f"No health recorded of {said} no validation accuracy."] if n else []


def _given(job: Job) -> list[Raised]:
    """Return the flags of the training of an encoder whose weights are given, as its file states them."""
    entry = job.entry
    stated = entry.flags if isinstance(entry, EncoderSpec) else {}
    return [Raised(flag=flag, because=because) for flag, because in stated.items()]
