"""Ranks encoders by what RUNs measured alike: tables for a leaderboard, one for each task and setting.

Numbers stand in one column only if the jobs behind them would have the same keys but for the encoder: the same rows,
examples, seeds, attack with its options, resources and VERSIONs of the code (`verdicts.compare.comparable_fields`),
and the same fine-tuning. So two tables may be of the same task. A row is an encoder by its name and the hash of its
weights.

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
from rbench.score.paired import DifferenceEstimate, ReportedNumber, combine_reported, compare, correct_by_holm
from rbench.tables import Results
from rbench.tables.aggregate import attack_grid
from rbench.tables.any_attack import build_any_attack_cells
from rbench.tables.for_people import collect_titles
from rbench.tables.formats import SIGN_MEANINGS
from rbench.tables.nested_means import JobValues
from rbench.tables.table import Number
from rbench.verdicts.cells import CellNumber, iterate_cells
from rbench.verdicts.compare import comparable_fields
from rbench.verdicts.pairing import ALPHA, pair_observations, side_of_bound

ENCODER_FIELDS = frozenset({"encoder", "encoder_fingerprint", "victim", "victim_fingerprint"})
"""The fields of the job that makes or opens a victim that say which encoder or classifier it is."""
ENCODER_ROLES = ("base", "encoder", "options.")
"""What the roles of jobs begin with that make an encoder (`Job.needs`)."""
ONE_COLUMN_KINDS = ("all", "noise", "graded", "similarity")
"""The kinds of columns of which a table shows the one that most of its rows have."""
PREFERRED_SETS = ("stsb", "typos", "perspectrum_ranking")
"""Of several that as many rows have, these tasks and kinds of noise."""
MOST_NAMED_ATTACKS = 3
"""Of so many attacks a column names each."""


class EncoderIdentity(NamedTuple):
    """An encoder or a classifier, by its label and by the hashes of its weights."""

    label: str
    weights: tuple[str, ...]


class BoardSetting(NamedTuple):
    """What the rows of a table have in common."""

    task: str
    finetune: str
    victims: str
    """The hash of how victims are made."""
    n: int
    """How many examples are attacked."""
    seeds: tuple[int, ...]


class BoardColumn(NamedTuple):
    """A number that encoders may have. Two of the same key may be compared."""

    kind: str
    """`words` (what all attacks together needed), `attack`, `exact`, `all`, `noise`, `graded` (what attacks leave of a
    score that is no accuracy, beside tables of other tasks), `similarity` or `clean`."""
    key: str
    title: str
    about: Meaning
    of: str = ""
    """The task of a similarity or of a graded score, or the kind of noise."""


class BoardNumber(NamedTuple):
    """A number of one encoder in one RUN."""

    who: EncoderIdentity
    column: BoardColumn
    setting: BoardSetting | None
    """None: it is of the encoder as it is, whatever victims are made of it. Of noise `n` is 0: it has texts of its own.
    """
    number: Number
    stated: ReportedNumber | None
    observed: tuple[JobValues, ...] | None
    run: RunPage


@dataclass(frozen=True)
class BoardRow:
    """An encoder in a table."""

    who: EncoderIdentity
    control: bool
    numbers: Mapping[BoardColumn, BoardNumber]
    ranks: tuple[int, int] | None = None
    """The least and the largest rank that its first number leaves open; None for controls and flagged entries."""
    size: int | None = None
    """How many weights it has; None where its file does not say."""


@dataclass(frozen=True)
class Board:
    """A table of encoders that were measured alike."""

    setting: BoardSetting
    title: str
    columns: tuple[BoardColumn, ...]
    rows: tuple[BoardRow, ...]
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
    def quality(self) -> BoardColumn | None:
        """What stands for quality beside robustness: similarity where most encoders have it, else what they have."""
        count = {column: sum(column in row.numbers for row in self.rows) for column in self.columns}
        candidates = [column for column in count if column.kind in ("similarity", "clean")]
        common = next(
            (column for column in candidates if column.kind == "similarity" and 2 * count[column] > len(self.rows)),
            None,
        )
        return common or max(candidates, key=count.__getitem__, default=None)


@dataclass
class BoardNumbers:
    """All numbers of all RUNs, as they are gathered RUN by RUN."""

    found: list[BoardNumber] = field(default_factory=list)
    entries: dict[EncoderIdentity, EncoderSpec | VictimSpec] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)

    def add(self, results: Results, run: RunPage) -> None:
        """Read the numbers of a RUN."""
        reader = NumberReader(results, run)
        self.found += reader.readings()
        self.entries |= reader.entries
        self.titles |= {
            name: title
            for name, title in collect_titles(results.plan, results.metrics).items()
            if name not in self.titles
        }

    def boards(self, sizes: Callable[[EncoderSpec], int | None] = lambda entry: None) -> list[Board]:
        """Return a table for each setting in which two encoders or more were attacked, that with most numbers first."""
        # Attacks say which settings there are. Other numbers join all settings that they fit: similarity joins each,
        # noise those with the same victims (its own `n` is 0).
        by_setting: dict[BoardSetting, list[BoardNumber]] = {}
        for board_number in self.found:
            if board_number.setting is not None and board_number.column.kind == "attack":
                by_setting.setdefault(board_number.setting, [])
        for board_number in self.found:
            for setting, of_setting in by_setting.items():
                if board_number.setting in (None, setting, setting._replace(n=0)):
                    of_setting.append(board_number)
        all_boards = (self._board(setting, of_setting, sizes) for setting, of_setting in by_setting.items())
        with_rivals = [board_number for board_number in all_boards if len(board_number.rows) > 1]
        return sorted(with_rivals, key=lambda board_number: (-board_number.filled, board_number.title))

    def _board(
        self, setting: BoardSetting, readings: Sequence[BoardNumber], sizes: Callable[[EncoderSpec], int | None]
    ) -> Board:
        attacked = {board_number.who for board_number in readings if board_number.setting == setting}
        numbers: dict[EncoderIdentity, dict[BoardColumn, BoardNumber]] = {}
        # The newest of the same number is kept; one of an unfinished RUN only where no other RUN has it.
        for board_number in sorted(readings, key=lambda reading: (not reading.number.partial, reading.run.date)):
            # The score of the table's own task is among its attacks already.
            repeated = board_number.column.kind == "graded" and board_number.column.of == setting.task
            if board_number.who in attacked and board_number.number.value is not None and not repeated:
                numbers.setdefault(board_number.who, {})[board_number.column] = board_number
        columns = _choose_columns(numbers.values())
        rows: list[BoardRow] = []
        if columns:
            # Ranks are of the first column, so who lacks it has no row.
            ranked = [self._row(who, by_column, sizes) for who, by_column in numbers.items() if columns[0] in by_column]
            rows = _rank_rows(ranked, columns[0])
        runs = {
            board_number.run.href: board_number.run
            for row in rows
            for column, board_number in row.numbers.items()
            if column in columns
        }
        task = self.titles.get(setting.task, setting.task)
        title = f"{task}, {setting.finetune}, {setting.n} examples, {_format_seeds(setting.seeds)}"
        return Board(setting, title, columns, tuple(rows), tuple(runs.values()))

    def _row(
        self,
        who: EncoderIdentity,
        numbers: Mapping[BoardColumn, BoardNumber],
        sizes: Callable[[EncoderSpec], int | None],
    ) -> BoardRow:
        entry = self.entries[who]
        size = sizes(entry) if isinstance(entry, EncoderSpec) else None
        return BoardRow(who, entry.control, numbers, size=size)


def _format_seeds(seeds: tuple[int, ...]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {', '.join(map(str, seeds))}"


def _choose_columns(rows: Iterable[Mapping[BoardColumn, BoardNumber]]) -> tuple[BoardColumn, ...]:
    """Return the columns of a table: words needed, where all rows have them; attacks, the one that most rows have
    first; then the others in their order.
    """
    row_numbers = list(rows)
    count = Counter(column for of_row in row_numbers for column in of_row)
    unhindered = Counter(
        column for of_row in row_numbers for column, candidate in of_row.items() if not _is_hindered(candidate.number)
    )
    chosen = sorted(
        (candidate for candidate in count if candidate.kind == "attack"),
        key=lambda candidate: (-unhindered[candidate], -count[candidate]),
    )
    most = count[chosen[0]] if chosen else 0
    words = [candidate for candidate in count if candidate.kind == "words" and count[candidate] == most]
    chosen = [*sorted(words, key=lambda candidate: candidate.key)[:1], *chosen]
    for kind in ("all", "exact", "noise", "graded", "similarity", "clean"):
        preferred = (*PREFERRED_SETS, *[candidate.title for candidate in chosen if candidate.kind == "attack"][:1])
        of_row = [
            candidate
            for candidate in count
            if candidate.kind == kind and (kind not in ONE_COLUMN_KINDS or count[candidate] > 1)
        ]
        of_row.sort(
            key=lambda candidate: (
                -count[candidate],
                preferred.index(candidate.of) if candidate.of in preferred else len(preferred),
            )
        )
        chosen += of_row[:1] if kind in ONE_COLUMN_KINDS else of_row
    return tuple(chosen)


def _rank_rows(rows: Sequence[BoardRow], lead: BoardColumn) -> list[BoardRow]:
    """Return the rows with their ranks, in order."""
    sign = -1 if lead.about.best == "lowest" else 1
    contest = [row for row in rows if not row.control and not _is_hindered(row.numbers[lead].number)]
    pairs = list(combinations(range(len(contest)), 2))
    differences = [_compare_numbers(contest[i].numbers[lead], contest[j].numbers[lead], lead) for i, j in pairs]
    better, worse = Counter[int](), Counter[int]()
    for (i, j), difference, corrected_p in zip(
        pairs, differences, correct_by_holm([difference.p for difference in differences]), strict=True
    ):
        if (better_side := side_of_bound(difference, corrected_p)) != "undecided":
            winner, loser = (j, i) if (better_side == "higher") == (sign > 0) else (i, j)
            better[loser] += 1
            worse[winner] += 1
    # Those who are significantly better stay ahead and those who are worse behind; any rank between is possible.
    ranks = {row.who: (1 + better[index], len(contest) - worse[index]) for index, row in enumerate(contest)}
    ranked = [replace(row, ranks=ranks.get(row.who)) for row in rows]

    def order(row: BoardRow) -> tuple[Any, ...]:
        value = row.numbers[lead].number.value or 0.0
        return (row.ranks is None, row.ranks[0] if row.ranks else 0, -sign * value, row.who)

    return sorted(ranked, key=order)


def _is_hindered(number: Number) -> bool:
    return number.flagged or bool(number.withheld) or number.partial


def _compare_numbers(first: BoardNumber, second: BoardNumber, lead: BoardColumn) -> DifferenceEstimate:
    """Compare two numbers, example by example, or by their intervals where a RUN keeps no outcomes."""
    if first.observed is not None and second.observed is not None:
        sample = pair_observations(first.observed, second.observed)
        if len(sample.one):
            return compare(sample, shares={*sample.one.tolist(), *sample.other.tolist()} <= {0.0, 1.0})
    if first.stated is None or second.stated is None:
        return DifferenceEstimate(None, 0)
    sides = ((second.stated, 1.0), (first.stated, -1.0))
    return combine_reported(
        [term._replace(weight=weight, group=(side, str(side), "")) for side, (term, weight) in enumerate(sides)]
    )


RANK_RULE = (
    "Rank: 1 and the number of encoders that are significantly better in the first column (paired by example, Holm "
    f"over all pairs of the table, alpha {ALPHA}); behind it the ranks that the numbers leave open (Mogstad et al. "
    "2024). Encoders that nothing tells apart share a rank. Controls and flagged entries have none. "
    f"{' '.join(SIGN_MEANINGS.values())}"
)


class NumberReader:
    """Reads the numbers of one RUN."""

    def __init__(self, results: Results, run: RunPage) -> None:
        self.results, self.plan, self.run = results, results.plan, run
        self.by_key = {job.key: job for job in self.plan.jobs}
        self.entries: dict[EncoderIdentity, EncoderSpec | VictimSpec] = {}
        self.known = collect_titles(self.plan, results.metrics)

    def readings(self) -> Iterator[BoardNumber]:
        for read in (self._attacks, self._all, self._read_noise, self._read_similarity):
            with suppress(StoreError):  # the RUN has none of these; its own page says what is missing
                yield from read()

    def _attacks(self) -> Iterator[BoardNumber]:
        exact = self._exact_attacks()
        for scored_by in dict.fromkeys(task_kind.board_metrics for task_kind in KINDS.values()):
            for metric, kind in zip(scored_by, ("attack", "clean"), strict=True):
                yield from self._read_metric(metric, kind, exact, scored_by)

    def _read_metric(
        self, metric: str, kind: str, exact: set[str], scored_by: tuple[str, str]
    ) -> Iterator[BoardNumber]:
        """Yield a metric of the attacks on tasks of the kinds with a pair of metrics: under attack, and before it. What
        victims are before attacks once."""
        about = self.results.metrics.asked(metric)
        clean_read: set[tuple[EncoderIdentity, BoardSetting]] = set()
        for name, cell in iterate_cells(self.results, about):
            spec = cell.cell.jobs[0].attacking
            if spec is None or not cell.cell.present or spec.task.of_kind.board_metrics != scored_by:
                continue
            who, setting = self._identity_and_setting(cell.cell.jobs)
            attack = self.known.get(name.attack or "", name.attack or "")
            deciding = [comparable_fields(cell.cell.jobs[0])]
            if kind == "clean":
                if (who, setting) in clean_read:
                    continue  # all attacks on a victim see the same examples
                clean_read.add((who, setting))
                column = BoardColumn(kind, metric, about.about.column, about.about)
            elif name.attack in exact:
                column = BoardColumn("exact", content_key(deciding), f"Exact: {attack}", about.about)
            else:
                column = BoardColumn(kind, content_key(deciding), attack, about.about)
            yield self._reading(who, column, setting, cell)
            if scored_by != ACCURACIES and kind == "attack":
                task, score = self.known.get(spec.task.name, spec.task.name), spec.task.of_kind.board_score
                graded_column = column._replace(kind="graded", title=f"{score}: {task}, {attack}", of=spec.task.name)
                yield self._reading(who, graded_column, None, cell)

    def _exact_attacks(self) -> set[str]:
        """Return the attacks that asked for all texts with one word replaced."""
        with suppress(StoreError):
            exact_cells = iterate_cells(self.results, self.results.metrics.asked("exact_asr"))
            return {name.attack or "" for name, cell in exact_cells if cell.value is not None}
        return set()

    def _all(self) -> Iterator[BoardNumber]:
        """Yield the accuracy of victims under all attacks of the RUN at once, and the words that these needed."""
        about, needed = self.results.metrics.asked("aua"), self.results.metrics.asked("words_needed")
        for cell in build_any_attack_cells(self.results, attack_grid(self.results)).cells.values():
            jobs = cell.jobs
            spec = jobs[0].attacking
            if not cell.present or spec is None or spec.task.of_kind.board_metrics != ACCURACIES:
                continue
            who, setting = self._identity_and_setting([run.job for run in cell.runs])
            attack_titles = {
                content_key(comparable_fields(attack_job)): self.known.get(attack_job.parts[3], attack_job.parts[3])
                for attack_job in jobs
            }
            names = (
                " and ".join(attack_titles.values())
                if len(attack_titles) <= MOST_NAMED_ATTACKS
                else f"{len(attack_titles)} attacks"
            )
            key = content_key(sorted(attack_titles))
            yield self._reading(
                who, BoardColumn("all", key, f"All: {names}", about.about), setting, CellNumber(cell, "aua")
            )
            column = BoardColumn("words", key, f"{needed.about.column}: {names}", needed.about)
            yield self._reading(who, column, setting, CellNumber(cell, needed.name))

    def _read_noise(self) -> Iterator[BoardNumber]:
        about = self.results.metrics.asked("noise")
        for _, cell in iterate_cells(self.results, about):
            label = cell.cell.label
            if not cell.cell.present or label == "none" or "@" in label or "+" in label:
                continue
            who, setting = self._identity_and_setting(cell.cell.jobs)
            key = content_key([comparable_fields(cell.cell.jobs[0]), label])
            column = BoardColumn("noise", key, f"Noise: {label}", about.about, label)
            yield self._reading(who, column, setting._replace(n=0), cell)

    def _read_similarity(self) -> Iterator[BoardNumber]:
        about = self.results.metrics.asked("sts")
        for name, cell in iterate_cells(self.results, about):
            if cell.cell.present and cell.cell.label == name.task:
                spec = cell.cell.jobs[0].measuring
                weights = {self._of_encoder(encoder_job) for encoder_job in cell.cell.jobs}
                who = EncoderIdentity(self._label_of(cell.cell.jobs[0]), tuple(sorted(weights)))
                if spec is not None and spec.encoder is not None:
                    self.entries.setdefault(who, spec.encoder)
                key = content_key(comparable_fields(cell.cell.jobs[0]))
                title = self.known.get(name.task or "", name.task or "")
                yield self._reading(
                    who, BoardColumn("similarity", key, title, about.about, name.task or ""), None, cell
                )

    def _reading(
        self, who: EncoderIdentity, column: BoardColumn, setting: BoardSetting | None, cell: CellNumber
    ) -> BoardNumber:
        number = cell.cell.number(cell.number) or Number(None, column.about.percent)
        observed = cell.cell.observed(cell.number) if column.kind in ("attack", "words") else None
        return BoardNumber(who, column, setting, number, cell.stated(), observed, self.run)

    def _label_of(self, job: Job) -> str:
        return self.plan.draw(job.parts[0]).encoder

    def _identity_and_setting(self, jobs: Sequence[Job]) -> tuple[EncoderIdentity, BoardSetting]:
        """Return whose victims the jobs of a cell attack or ask, and how these were made."""
        makers = [self.by_key.get(job.needs.get("victim", "")) for job in jobs]
        made = [maker for maker in makers if maker is not None]
        spec = made[0].victim if made else None
        if spec is None or len(made) < len(jobs):
            raise StoreError(f"{self.results.root}: the plan does not say how the victim of {jobs[0].name} is made")
        weights = {self._of_encoder(victim_job) for victim_job in made}
        who = EncoderIdentity(self._label_of(jobs[0]), tuple(sorted(weights)))
        entry = made[0].entry
        assert entry is not None
        self.entries.setdefault(who, entry)
        hash_of_making = content_key(sorted({self._how(victim_job) for victim_job in made}))
        attacking = jobs[0].attacking
        n = attacking.num_examples if attacking is not None else 0
        seeds = tuple(sorted({job.seed for job in jobs}))
        return who, BoardSetting(spec.task.name, jobs[0].parts[2], hash_of_making, n, seeds)

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
            # The fine-tuning hash leaves the encoder's own jobs out, so that different encoders share a setting.
            if not role.startswith(ENCODER_ROLES) and role != "victim"
        )
        fields = spec.model_dump(mode="json", exclude={*ENCODER_FIELDS, "task", "resources"})
        return content_key([fields, job.seed, needs, comparable_fields(job)])
