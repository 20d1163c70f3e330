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

from rbench.schema import FLAGS, EncoderSpec, Flag, Health, Job, Plan, RaisedFlag, Record
from rbench.store.runs import RunReader
from rbench.tables.formats import MOST_NAMED, format_brief, list_names
from rbench.tables.table import Number
from rbench.tables.weak import SEARCH_FLAGS, WeakAttacks

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
ATTACK_FLAGS: tuple[Flag, ...] = ("starved of candidates", *SEARCH_FLAGS)
"""The flags that attacks raise; others are of trainings and victims."""
VOIDING_FLAGS: tuple[Flag, ...] = ("near chance", *ATTACK_FLAGS)
"""The flags with which a gate's numbers say nothing, whatever the suite requires."""

HEALTH_UNKNOWN = "Health not known"
"""Begins the note on results whose own training, victim or attack has no record any more."""


def join_flags(known_flags: list[str] | None) -> str | None:
    """Write what `Flags.told` returns into one field: flags joined by `; `, `none`, or nothing where unknown."""
    return None if known_flags is None else "; ".join(known_flags) or "none"


@dataclass(frozen=True)
class Flags:
    """The flags of the jobs of a plan, and of what stands on them."""

    plan: Plan
    records: Mapping[str, Record]
    """Records by job key."""
    store: RunReader | None = None
    """Where outcomes are, for the flags that compare attacks text by text; None: those are not raised."""

    @cached_property
    def _jobs(self) -> dict[str, Job]:
        return {job.key: job for job in self.plan.jobs}

    @cached_property
    def _order(self) -> dict[str, int]:
        return {job.key: i for i, job in enumerate(self.plan.jobs)}

    def of(self, jobs: Iterable[Job]) -> tuple[Flag, ...]:
        """Return the flags of some jobs and of all that they stand on, each once."""
        raised = {raised_flag.flag for job in self.jobs_behind(jobs) for raised_flag in self._raised(job)}
        return tuple(flag for flag in FLAGS if flag in raised)

    def told(self, jobs: Iterable[Job]) -> list[str] | None:
        """Return the same for programs; None where there are none and the health of a job behind them is not known."""
        shown_jobs = list(jobs)
        flags = self.of(shown_jobs)
        # No flag although a health is unknown is not the same as none: then programs get None.
        known = all(self._health(job) is not None for job in self.jobs_behind(shown_jobs) if job.has_health)
        return list(flags) if flags or known else None

    def hiding(self, jobs: Iterable[Job], attacks: bool = True) -> tuple[Flag, ...]:
        """Return the flags that withhold an entry made of some jobs: none unless the suite requires healthy ones.

        Flags of the encoder and its victim do not count where the encoder is a control, nor those of the attack where
        the attack is one, or where `attacks` is false because the entry is not about the attack.
        """
        return self.accountable_flags(jobs, attacks) if self.plan.suite.require == "healthy" else ()

    def on(self, number: Number, jobs: Iterable[Job], attacks: bool = True) -> Number:
        """Return a number that is made of some jobs with what flags do to it: it is withheld, or marked.

        Flags of controls withhold nothing, but a flagged control is marked, and never the best. All numbers of tables
        and figures get their marks here, or from the numbers of which they are an average.

        Args:
            attacks: whether the number is about the attack, so that the flags of the attack itself concern it.
        """
        shown_jobs = list(jobs)
        # A number of a victim (`attacks` false) stands on jobs of the victim only: flags of the attack do not mark it.
        flagged_jobs = (
            shown_jobs if attacks else [self._jobs.get(job.needs.get("victim", ""), job) for job in shown_jobs]
        )
        marked = number.hidden(self.hiding(shown_jobs, attacks))
        return replace(marked, flagged=number.flagged or bool(marked.withheld) or bool(self.of(flagged_jobs)))

    def accountable_flags(self, jobs: Iterable[Job], attacks: bool = True, trainings: bool = True) -> tuple[Flag, ...]:
        """Return the flags for which a suite that requires healthy ones would withhold an entry; see `hiding`.

        Args:
            trainings: whether those of the training of an encoder count.
        """
        accountable_jobs = [accountable for job in jobs for accountable in self._accountable_jobs(job, attacks)]
        if trainings:
            raised = {raised_flag.flag for accountable in accountable_jobs for raised_flag in self._raised(accountable)}
        else:
            raised = {
                raised_flag.flag
                for accountable in accountable_jobs
                if accountable.pretraining is None
                for raised_flag in self._measured_flags(accountable)
            }
        return tuple(flag for flag in FLAGS if flag in raised)

    def voiding_flags(self, jobs: Iterable[Job], attacks: bool = True) -> tuple[Flag, ...]:
        """Return the flags for which a gate says nothing of some jobs; see `against`."""
        accountable = self.accountable_flags(jobs, attacks)
        return (
            accountable
            if self.plan.suite.require == "healthy"
            else tuple(flag for flag in accountable if flag in VOIDING_FLAGS)
        )

    def unrecorded(self, jobs: Iterable[Job]) -> bool:
        """Whether the record of a victim behind some jobs is missing or damaged."""
        victims = (job for job in self.jobs_behind(jobs) if job.victim is not None)
        return any(job.key not in self.records for job in victims)

    def lost(self, jobs: Iterable[Job], attacks: bool = True, trainings: bool = True) -> list[str]:
        """Return the names of the jobs whose flags would count (`against`) and whose records are missing or damaged."""
        accountable = {
            accountable_job.key: accountable_job
            for job in jobs
            for accountable_job in self._accountable_jobs(job, attacks)
            if accountable_job.has_health
        }
        counted = (
            accountable_job
            for accountable_job in accountable.values()
            if trainings or accountable_job.pretraining is None
        )
        return [accountable_job.name for accountable_job in counted if accountable_job.key not in self.records]

    def notes(self, jobs: Iterable[Job]) -> tuple[str, ...]:
        """Return the notes on health below a table that shows some jobs: flags, deltas, and what was never measured."""
        shown_jobs = list(jobs)
        behind = self.jobs_behind(shown_jobs)
        return (
            *self.raised_notes(shown_jobs),
            *self._delta_notes(behind),
            *self._no_health_notes(behind),
            *self._lost_record_notes(shown_jobs),
        )

    def raised_notes(self, jobs: Iterable[Job]) -> list[str]:
        """Return a note for each flag of some jobs and of all that they stand on."""
        shown_jobs = list(jobs)
        notes = []
        for flag in self.of(shown_jobs):
            groups: dict[str, list[tuple[Job, RaisedFlag]]] = {}
            stated: dict[str, str] = {}
            for job in self.jobs_behind(shown_jobs):
                for raised_flag in self._measured_flags(job):
                    if raised_flag.flag == flag:
                        groups.setdefault("/".join(job.parts), []).append((job, raised_flag))
                stated |= {
                    self._encoder(job): raised_flag.because
                    for raised_flag in _stated_flags(job)
                    if raised_flag.flag == flag
                }
            descriptions = [f"{name} ({because})" for name, because in stated.items()]
            descriptions += [self._named(name, group, shown_jobs) for name, group in groups.items()]
            more = f"; and {len(descriptions) - MOST_NAMED} more" if len(descriptions) > MOST_NAMED else ""
            notes.append(f"Flagged {flag} ({MEANINGS[flag]}): {'; '.join(descriptions[:MOST_NAMED])}{more}.")
        return notes

    def listed(self, jobs: Iterable[Job]) -> tuple[dict[str, Any], ...]:
        """Return every flag behind some jobs for programs: the flag, its job, and why it was raised.

        A flag of weights that are given has the encoder's name in place of a job's.
        """
        behind = self.jobs_behind(jobs)
        stated = {
            (self._encoder(job), raised_flag.flag): raised_flag for job in behind for raised_flag in _stated_flags(job)
        }
        return (
            *({"job": name, **raised_flag.model_dump()} for (name, _), raised_flag in stated.items()),
            *(
                {"job": job.name, **raised_flag.model_dump()}
                for job in behind
                for raised_flag in self._measured_flags(job)
            ),
        )

    def _raised(self, job: Job) -> tuple[RaisedFlag, ...]:
        # Weights that are given have no job, so their flags come from the encoder's file (`_stated_flags`), not from a
        # record.
        return (*_stated_flags(job), *self._measured_flags(job))

    def _measured_flags(self, job: Job) -> tuple[RaisedFlag, ...]:
        health = self._health(job)
        return (*(health.flags if health is not None else ()), *self._weak_attacks.raised(job))

    @cached_property
    def _weak_attacks(self) -> WeakAttacks:
        return WeakAttacks(self.plan, self.records, self.store)

    def _encoder(self, job: Job) -> str:
        return self.plan.draw(job.parts[0]).encoder

    def _health(self, job: Job) -> Health | None:
        record = self.records.get(job.key)
        return record.health if record is not None else None

    def jobs_behind(self, jobs: Iterable[Job]) -> list[Job]:
        """Return some jobs and all that they stand on, each once, in the plan's order."""
        visited: set[str] = set()
        pending = [job.key for job in jobs]
        while pending:
            key = pending.pop()
            # A job may be reached in several ways, such as a base that two encoders share, and counts once.
            if key not in visited and key in self._jobs:
                visited.add(key)
                pending += self._jobs[key].needs.values()
        return [self._jobs[key] for key in sorted(visited, key=self._order.__getitem__)]

    def _accountable_jobs(self, job: Job, attacks: bool) -> list[Job]:
        """Return the jobs whose flags withhold an entry made of `job`: all behind it but those of a control."""
        role = "victim" if "victim" in job.needs else "encoder"
        victim_or_encoder = self._jobs.get(job.needs.get(role, ""))
        victim_jobs = self.jobs_behind([victim_or_encoder]) if victim_or_encoder is not None else []
        other_jobs = [other for other in self.jobs_behind([job]) if other not in victim_jobs]
        return [
            *([] if self._is_control_encoder(job, victim_or_encoder) else victim_jobs),
            *([] if job.attacking is not None and (job.attacking.attack.control or not attacks) else other_jobs),
        ]

    def _is_control_encoder(self, job: Job, below: Job | None) -> bool:
        """Whether the encoder, or the classifier that exists, is a control."""
        encoder_job = job if job.untuned else below
        return encoder_job is not None and encoder_job.entry is not None and encoder_job.entry.control

    def _named(self, name: str, group: list[tuple[Job, RaisedFlag]], shown_jobs: list[Job]) -> str:
        """Name the jobs of one group, which differ in their seeds, why the first is flagged, and what stands on it."""
        job, first = group[0]
        same = [other for other in self.plan.jobs if (other.stage, other.parts) == (job.stage, job.parts)]
        seeds = ", ".join(str(flagged.seed) for flagged, _ in group)
        which = f" seed{'s' * (len(group) > 1)} {seeds}" if len(same) > 1 else ""
        why = f"seed {job.seed}: {first.because}" if len(group) > 1 else first.because
        on = ""
        if job.pretraining is not None:
            # Tables show victims and attacks, not trainings: so say which of their encoders stand on this one.
            encoders = dict.fromkeys(shown.parts[0] for shown in shown_jobs if job in self.jobs_behind([shown]))
            others = [encoder for encoder in encoders if encoder != job.parts[0]]
            on = f"; behind {', '.join(others)}" if others else ""
        return f"{name}{which} ({why}{on})"

    def _delta_notes(self, behind: list[Job]) -> list[str]:
        """Return a note on how strongly trainings with an adversary perturbed their inputs at the end."""
        perturbed = []
        for job in behind:
            health = self._health(job)
            if job.pretraining is None or health is None:
                continue
            last = {**health.values}
            for measured in health.series:
                last |= measured.values
            values = [f"{name} {format_brief(last[name])}" for name in _DELTAS if name in last]
            seeds_of_training = [
                other for other in self.plan.jobs if (other.stage, other.parts) == (job.stage, job.parts)
            ]
            perturbed += (
                [f"{job.parts[0]}{f' seed {job.seed}' * (len(seeds_of_training) > 1)} {', '.join(values)}"]
                if values
                else []
            )
        if not perturbed:
            return []
        return [
            "Perturbations when last measured in training (delta ratio: their norm by the norm of what they are added "
            "to; adversarial cosine: of clean and perturbed vectors; dropout cosine: of two dropout views): "
            f"{'; '.join(perturbed)}."
        ]

    def _lost_record_notes(self, shown_jobs: list[Job]) -> list[str]:
        """Return a note on jobs that results stand on and whose own records are missing or damaged."""
        done = [job for job in shown_jobs if job.key in self.records and self.records[job.key].status == "complete"]
        behind = (job for job in self.jobs_behind(done) if job.has_health)
        lost_names = [job.name for job in behind if job.key not in self.records]
        return (
            [f"{HEALTH_UNKNOWN}, since the record is missing or damaged: {list_names(lost_names)}."]
            if lost_names
            else []
        )

    def _no_health_notes(self, behind: list[Job]) -> list[str]:
        """Return a note on fine-tunings without a health: those of a user's strategy that gives no accuracy."""
        records = (self.records.get(job.key) for job in behind if job.tuning is not None)
        count = sum(record is not None and record.status == "complete" and record.health is None for record in records)
        fine_tunings = (
            "a fine-tuning, whose strategy gives" if count == 1 else f"{count} fine-tunings, whose strategies give"
        )
        return [f"No health recorded of {fine_tunings} no validation accuracy."] if count else []


def _stated_flags(job: Job) -> list[RaisedFlag]:
    """Return the flags of the training of an encoder whose weights are given, as its file states them."""
    entry = job.entry
    stated = entry.flags if isinstance(entry, EncoderSpec) else {}
    return [RaisedFlag(flag=flag, because=because) for flag, because in stated.items()]
