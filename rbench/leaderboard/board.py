"""Ranks encoders by what RUNs measured alike: tables for a leaderboard, one for each task and setting.

Numbers stand in one column only if the jobs behind them would have the same keys but for the encoder: the same rows,
examples, seeds, attack with its options, resources and VERSIONs of the code (`verdicts.compare.decisive`), and the same
fine-tuning. So two tables may be of the same task. A row is an encoder by its name and the hash of its weights.

Ranks are those of the first column. The rank of an entry is 1 and the number of entries that are significantly better:
paired by example, Holm over all pairs of the column. It is the least rank in the confidence set of Mogstad, Romano,
Shaikh and Wilhelm (2024), "Inference for ranks with applications to mobility across neighbourhoods and academic
achievement across countries", Review of Economic Studies 91(1); the largest rank of the set is the number of entries
that are not significantly worse. Entries that nothing tells apart from the best share its rank. Controls and flagged
entries have none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

from rbench.errors import StoreError
from rbench.report.data import RunPage
from rbench.schema import KINDS, EncoderSpec, Job, Meaning, VictimSpec
from rbench.schema.jobs import content_key
from rbench.schema.kinds import ACCURACIES
from rbench.score.paired import Difference, Stated, combine_stated, compare, holm
from rbench.tables import Results
from rbench.tables.aggregate import grid
from rbench.tables.any_attack import any_attack
from rbench.tables.for_people import titles
from rbench.tables.formats import SIGNS
from rbench.tables.nested_means import Observed
from rbench.tables.table import Number
from rbench.verdicts.cells import OfCell, cells_of
from rbench.verdicts.compare import decisive
from rbench.verdicts.pairing import ALPHA, paired_sample, way

OTHERS = frozenset({"encoder", "encoder_fingerprint", "victim", "victim_fingerprint"})
"""The fields of the job that makes or opens a victim that say which encoder or classifier it is."""
MAKE_ENCODER = ("base", "encoder", "options.")
"""What the roles of jobs begin with that make an encoder (`Job.needs`)."""
ONE_OF = ("all", "noise", "graded", "similarity")
"""The kinds of columns of which a table shows the one that most of its rows have."""
FIRST = ("stsb", "typos", "perspectrum_ranking")
"""Of several that as many rows have, these tasks and kinds of noise."""
NAMED = 3
"""Of so many attacks a column names each."""


class Who(NamedTuple):
    """An encoder or a classifier, by its label and by the hashes of its weights."""

    label: str
    weights: tuple[str, ...]


class Setting(NamedTuple):
    """What the rows of a table have in common."""

    task: str
    finetune: str
    victims: str
    """The hash of how victims are made."""
    n: int
    """How many examples are attacked."""
    seeds: tuple[int, ...]


class Column(NamedTuple):
    """A number that encoders may have. Two of the same key may be compared."""

    kind: str
    """`attack`, `exact`, `all`, `noise`, `graded` (what attacks leave of a score that is no accuracy, beside tables of
    other tasks), `similarity` or `clean`."""
    key: str
    title: str
    about: Meaning
    of: str = ""
    """The task of a similarity or of a graded score, or the kind of noise."""


class Reading(NamedTuple):
    """A number of one encoder in one RUN."""

    who: Who
    column: Column
    setting: Setting | None
    """None: it is of the encoder as it is, whatever victims are made of it. Of noise `n` is 0: it has texts of its own.
    """
    number: Number
    stated: Stated | None
    observed: tuple[Observed, ...] | None
    run: RunPage


@dataclass(frozen=True)
class Row:
    """An encoder in a table."""

    who: Who
    control: bool
    numbers: Mapping[Column, Reading]
    ranks: tuple[int, int] | None = None
    """The least and the largest rank that its first number leaves open; None for controls and flagged entries."""
    size: int | None = None
    """How many weights it has; None where its file does not say."""


@dataclass(frozen=True)
class Board:
    """A table of encoders that were measured alike."""

    setting: Setting
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    """By rank, then by the first number. Those without a rank are last."""
    runs: tuple[RunPage, ...]

    @property
    def ranked(self) -> int:
        """How many rows have a rank."""
        return sum(row.ranks is not None for row in self.rows)

    @property
    def filled(self) -> int:
        """How many numbers the encoders with a rank have."""
        return sum(column in row.numbers for row in self.rows if row.ranks for column in self.columns)

    @property
    def quality(self) -> Column | None:
        """What stands for quality beside robustness: similarity where most encoders have it, else what they have."""
        count = {one: sum(one in row.numbers for row in self.rows) for one in self.columns}
        found = [one for one in count if one.kind in ("similarity", "clean")]
        most = next((one for one in found if one.kind == "similarity" and 2 * count[one] > len(self.rows)), None)
        return most or max(found, key=count.__getitem__, default=None)


@dataclass
class Readings:
    """All numbers of all RUNs, as they are gathered RUN by RUN."""

    found: list[Reading] = field(default_factory=list)
    entries: dict[Who, EncoderSpec | VictimSpec] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    def add(self, results: Results, run: RunPage) -> None:
        """Read the numbers of a RUN."""
        reader = _Reader(results, run)
        self.found += reader.readings()
        self.entries |= reader.entries
        self.titles |= {
            name: title for name, title in titles(results.plan, results.metrics).items() if name not in self.titles
        }

    def boards(self, sizes: Callable[[EncoderSpec], int | None] = lambda entry: None) -> list[Board]:
        """Return a table for each setting in which two encoders or more were attacked, that with most numbers first."""
        by_setting: dict[Setting, list[Reading]] = {}
        for one in self.found:
            if one.setting is not None and one.column.kind == "attack":
                by_setting.setdefault(one.setting, [])
        for one in self.found:
            for setting, own in by_setting.items():
                if one.setting in (None, setting, setting._replace(n=0)):
                    own.append(one)
        made = (self._board(setting, own, sizes) for setting, own in by_setting.items())
        several = [one for one in made if len(one.rows) > 1]
        return sorted(several, key=lambda one: (-one.filled, one.title))

    def _board(
        self, setting: Setting, readings: Sequence[Reading], sizes: Callable[[EncoderSpec], int | None]
    ) -> Board:
        there = {one.who for one in readings if one.setting == setting}
        numbers: dict[Who, dict[Column, Reading]] = {}
        for one in sorted(readings, key=lambda one: one.run.date):  # the newest of the same is kept
            own = one.column.kind == "graded" and one.column.of == setting.task  # it is among the attacks already
            if one.who in there and one.number.value is not None and not own:
                numbers.setdefault(one.who, {})[one.column] = one
        columns = _columns(numbers.values())
        rows = [self._row(who, own, sizes) for who, own in numbers.items() if columns and columns[0] in own]
        rows = _ranked(rows, columns[0]) if columns else []
        runs = {one.run.href: one.run for row in rows for column, one in row.numbers.items() if column in columns}
        task = self.titles.get(setting.task, setting.task)
        title = f"{task}, {setting.finetune}, {setting.n} examples, {_seeds(setting.seeds)}"
        return Board(setting, title, columns, tuple(rows), tuple(runs.values()))

    def _row(self, who: Who, own: Mapping[Column, Reading], sizes: Callable[[EncoderSpec], int | None]) -> Row:
        entry = self.entries[who]
        size = sizes(entry) if isinstance(entry, EncoderSpec) else None
        return Row(who, entry.control, own, size=size)


def _seeds(seeds: tuple[int, ...]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"


def _columns(rows: Iterable[Mapping[Column, Reading]]) -> tuple[Column, ...]:
    """Return the columns of a table: attacks, the one that most rows have first; then the others in their order."""
    there = list(rows)
    count = Counter(column for own in there for column in own)
    sound = Counter(column for own in there for column, one in own.items() if not _hindered(one.number))
    found = sorted((one for one in count if one.kind == "attack"), key=lambda one: (-sound[one], -count[one]))
    for kind in ("all", "exact", "noise", "graded", "similarity", "clean"):
        first = (*FIRST, found[0].title) if found else FIRST
        own = [one for one in count if one.kind == kind and (kind not in ONE_OF or count[one] > 1)]
        own.sort(key=lambda one: (-count[one], first.index(one.of) if one.of in first else len(first)))
        found += own[:1] if kind in ONE_OF else own
    return tuple(found)


def _ranked(rows: Sequence[Row], lead: Column) -> list[Row]:
    """Return the rows with their ranks, in order."""
    best = max if lead.about.best != "lowest" else min
    sign = 1 if best is max else -1
    contest = [row for row in rows if not row.control and not _hindered(row.numbers[lead].number)]
    pairs = list(combinations(range(len(contest)), 2))
    found = [_difference(contest[i].numbers[lead], contest[j].numbers[lead], lead) for i, j in pairs]
    better, worse = Counter[int](), Counter[int]()
    for (i, j), one, p in zip(pairs, found, holm([one.p for one in found]), strict=True):
        if (side := way(one, p)) != "undecided":
            up, down = (j, i) if (side == "higher") == (sign > 0) else (i, j)
            better[down] += 1
            worse[up] += 1
    # Those who are significantly better stay ahead and those who are worse behind; any rank between is possible.
    ranks = {row.who: (1 + better[k], len(contest) - worse[k]) for k, row in enumerate(contest)}
    ranked = [replace(row, ranks=ranks.get(row.who)) for row in rows]

    def order(row: Row) -> tuple[Any, ...]:
        value = row.numbers[lead].number.value or 0.0
        return (row.ranks is None, row.ranks[0] if row.ranks else 0, -sign * value, row.who)

    return sorted(ranked, key=order)


def _hindered(number: Number) -> bool:
    return number.flagged or bool(number.withheld) or number.partial


def _difference(one: Reading, other: Reading, lead: Column) -> Difference:
    """Compare two numbers, example by example, or by their intervals where a RUN keeps no outcomes."""
    if one.observed is not None and other.observed is not None:
        sample = paired_sample(one.observed, other.observed)
        if len(sample.one):
            return compare(sample, shares={*sample.one.tolist(), *sample.other.tolist()} <= {0.0, 1.0})
    if one.stated is None or other.stated is None:
        return Difference(None, 0)
    sides = ((other.stated, 1.0), (one.stated, -1.0))
    return combine_stated(
        [term._replace(weight=weight, group=(side, str(side), "")) for side, (term, weight) in enumerate(sides)]
    )


RULE = (
    "Rank: 1 and the number of encoders that are significantly better in the first column (paired by example, Holm "
    f"over all pairs of the table, alpha {ALPHA}); behind it the ranks that the numbers leave open (Mogstad et al. "
    "2024). Encoders that nothing tells apart share a rank. Controls and flagged entries have none. "
    f"{' '.join(SIGNS.values())}"
)


class _Reader:
    """Reads the numbers of one RUN."""

    def __init__(self, results: Results, run: RunPage) -> None:
        self.results, self.plan, self.run = results, results.plan, run
        self.by_key = {job.key: job for job in self.plan.jobs}
        self.entries: dict[Who, EncoderSpec | VictimSpec] = {}
        self.known = titles(self.plan, results.metrics)

    def readings(self) -> Iterator[Reading]:
        for read in (self._attacks, self._all, self._noise, self._similarity):
            with suppress(StoreError):  # the RUN has none of these; its own page says what is missing
                yield from read()

    def _attacks(self) -> Iterator[Reading]:
        exact = self._exact()
        for scored_by in dict.fromkeys(one.board_metrics for one in KINDS.values()):
            for metric, kind in zip(scored_by, ("attack", "clean"), strict=True):
                yield from self._of_attacks(metric, kind, exact, scored_by)

    def _of_attacks(self, metric: str, kind: str, exact: set[str], scored_by: tuple[str, str]) -> Iterator[Reading]:
        """Yield a metric of the attacks on tasks of the kinds with a pair of metrics: under attack, and before it. What
        victims are before attacks once."""
        about = self.results.metrics.asked(metric)
        seen: set[tuple[Who, Setting]] = set()
        for name, cell in cells_of(self.results, about):
            spec = cell.cell.jobs[0].attacking
            if spec is None or not cell.cell.present or spec.task.of_kind.board_metrics != scored_by:
                continue
            who, setting = self._victims(cell.cell.jobs)
            attack = self.known.get(name.attack or "", name.attack or "")
            same = [decisive(cell.cell.jobs[0])]
            if kind == "clean":
                if (who, setting) in seen:
                    continue  # all attacks on a victim see the same examples
                seen.add((who, setting))
                column = Column(kind, metric, about.about.column, about.about)
            elif name.attack in exact:
                column = Column("exact", content_key(same), f"Exact: {attack}", about.about)
            else:
                column = Column(kind, content_key(same), attack, about.about)
            yield self._reading(who, column, setting, cell)
            if scored_by != ACCURACIES and kind == "attack":
                task, score = self.known.get(spec.task.name, spec.task.name), spec.task.of_kind.board_score
                beside = column._replace(kind="graded", title=f"{score}: {task}, {attack}", of=spec.task.name)
                yield self._reading(who, beside, None, cell)

    def _exact(self) -> set[str]:
        """Return the attacks that asked for all texts with one word replaced."""
        with suppress(StoreError):
            found = cells_of(self.results, self.results.metrics.asked("exact_asr"))
            return {name.attack or "" for name, cell in found if cell.value is not None}
        return set()

    def _all(self) -> Iterator[Reading]:
        """Yield the accuracy of victims under all attacks of the RUN at once."""
        about = self.results.metrics.asked("aua")
        for cell in any_attack(self.results, grid(self.results)).cells.values():
            jobs = cell.jobs
            spec = jobs[0].attacking
            if not cell.present or spec is None or spec.task.of_kind.board_metrics != ACCURACIES:
                continue
            who, setting = self._victims([run.job for run in cell.runs])
            several = {content_key(decisive(one)): self.known.get(one.parts[3], one.parts[3]) for one in jobs}
            names = " and ".join(several.values()) if len(several) <= NAMED else f"{len(several)} attacks"
            column = Column("all", content_key(sorted(several)), f"All: {names}", about.about)
            yield self._reading(who, column, setting, OfCell(cell, "aua"))

    def _noise(self) -> Iterator[Reading]:
        about = self.results.metrics.asked("noise")
        for _, cell in cells_of(self.results, about):
            label = cell.cell.label
            if not cell.cell.present or label == "none" or "@" in label or "+" in label:
                continue
            who, setting = self._victims(cell.cell.jobs)
            key = content_key([decisive(cell.cell.jobs[0]), label])
            column = Column("noise", key, f"Noise: {label}", about.about, label)
            yield self._reading(who, column, setting._replace(n=0), cell)

    def _similarity(self) -> Iterator[Reading]:
        about = self.results.metrics.asked("sts")
        for name, cell in cells_of(self.results, about):
            if cell.cell.present and cell.cell.label == name.task:
                spec = cell.cell.jobs[0].measuring
                weights = {self._of_encoder(one) for one in cell.cell.jobs}
                who = Who(self._label(cell.cell.jobs[0]), tuple(sorted(weights)))
                if spec is not None and spec.encoder is not None:
                    self.entries.setdefault(who, spec.encoder)
                key = content_key(decisive(cell.cell.jobs[0]))
                title = self.known.get(name.task or "", name.task or "")
                yield self._reading(who, Column("similarity", key, title, about.about, name.task or ""), None, cell)

    def _reading(self, who: Who, column: Column, setting: Setting | None, cell: OfCell) -> Reading:
        number = cell.cell.number(cell.number) or Number(None, column.about.percent)
        observed = cell.cell.observed(cell.number) if column.kind == "attack" else None
        return Reading(who, column, setting, number, cell.stated(), observed, self.run)

    def _label(self, job: Job) -> str:
        return self.plan.draw(job.parts[0]).encoder

    def _victims(self, jobs: Sequence[Job]) -> tuple[Who, Setting]:
        """Return whose victims the jobs of a cell attack or ask, and how these were made."""
        made = [found for job in jobs if (found := self.by_key.get(job.needs.get("victim", ""))) is not None]
        spec = made[0].victim if made else None
        if spec is None or len(made) < len(jobs):
            raise StoreError(f"{self.results.root}: the plan does not say how the victim of {jobs[0].name} is made")
        weights = {self._of_encoder(one) for one in made}
        who = Who(self._label(jobs[0]), tuple(sorted(weights)))
        entry = made[0].entry
        assert entry is not None
        self.entries.setdefault(who, entry)
        how = content_key(sorted({self._how(one) for one in made}))
        attacking = jobs[0].attacking
        n = attacking.num_examples if attacking is not None else 0
        seeds = tuple(sorted({job.seed for job in jobs}))
        return who, Setting(spec.task.name, jobs[0].parts[2], how, n, seeds)

    def _of_encoder(self, job: Job) -> str:
        """Return what tells the weights of an encoder or classifier from others: a hash, or the key of their job."""
        if job.opening is not None:
            return job.opening.victim_fingerprint
        spec: Any = job.spec
        return job.needs.get("encoder") or spec.encoder_fingerprint or ""

    def _how(self, job: Job) -> str:
        """Return the hash of how a victim was made, whatever its encoder."""
        spec = job.spec
        needs = sorted(
            self._how(self.by_key[key]) if job.stage == "finetune" and role == "attack" else key
            for role, key in job.needs.items()
            if not role.startswith(MAKE_ENCODER) and role != "victim"
        )
        fields = spec.model_dump(mode="json", exclude={*OTHERS, "task", "resources"})
        return content_key([fields, job.seed, needs, decisive(job)])
