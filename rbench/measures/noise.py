"""Noise: scores on texts that are changed as ordinary or hostile typing changes them, by kind and degree.

A sample of test texts is changed by each kind of noise (`rbench/noise`), at each degree in several seeded draws. All
victims read the same changed texts, whatever their seed. The score is that of the task: accuracy, Spearman's
correlation of pairs, nDCG of queries. Three numbers are means over texts: the expected score, that of the worst draw
for each text (of accuracy, the share of texts that are right in every draw), and the score lost. Each is known at every
degree, and as a mean over the degrees of the suite. Nobody checks that a changed text still has its label, its gold
score or its relevant documents: at high degrees it may not.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from rbench.errors import SuiteError
from rbench.measures import Measure
from rbench.measures._answers import TextAnswers, collect_answers
from rbench.measures._context import Measured, VictimContext
from rbench.measures._noise import DROP, NAME, NONE, NORMALISED, WORST, NoiseRows, divide_sums
from rbench.measures._noise import METRICS as METRICS
from rbench.measures._noise import list_labels as list_labels
from rbench.measures._noise import list_spoken as list_spoken
from rbench.measures._stored import jobs_of_measure, read_rows
from rbench.noise import MOST_CLAUSES, NoiseKind, noised, normalise
from rbench.schema import Job, Meaning, MeasuredRow, Record, Score, Strict, Suite, TaskSpec
from rbench.schema.common import Count, Positive
from rbench.store.verify import find_unequal
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, NumberReading, gather_cells, mean_score, read_values_by_place
from rbench.tables.cells import MeasuredCell as Cell
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import format_range, seeds_note, unfinished_notes
from rbench.tables.results import SeedRun
from rbench.tables.table import Layout, Number, TableEntry, mark_best_of_column

if TYPE_CHECKING:
    from rbench.tasks import Example

# Part of the key of every noise job (config/versions.py): raising it asks all victims anew. Rows of VERSION 1 are still
# read, and verified without the areas that their records have (`unlike`).
VERSION = 2
USES = (
    "encoders.classify",
    "encoders.index",
    "encoders.retriever",
    "encoders.scorer",
    "noise._changes",
    "noise._normalise",
    "score.packed",
    "score.sts",
)


class Options(Strict):
    """Which texts are changed, how, and how often."""

    kinds: Annotated[tuple[str, ...], Field(min_length=1)] = (
        *("typos", "swaps", "ocr", "upper", "whitespace", "lookalikes", "zerowidth", "after"),
    )
    """Kinds of noise, by the names of their files; `rbench list noise` shows all."""
    degrees: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1)] = (0.05, 0.1, 0.2, 0.4)
    """Shares of units to change, in 0..1. Degree 0, the texts as they are, is always there."""
    draws: Annotated[int, Field(ge=1, le=100)] = 3
    """How often each text is changed anew at each degree."""
    num_examples: Positive | None = 300
    """How many test texts, drawn by `seed`; None: all."""
    seed: Count = 0
    """Draws the texts and the noise. It is not the seed of fine-tuning: all victims read the same texts."""
    protect: tuple[str, ...] = ()
    """Columns of the task that are left as they are."""
    defence: Literal["normalise"] | None = None
    """`normalise`: texts are also read after `rbench.noise.normalise`, those without noise included."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        object.__setattr__(self, "kinds", tuple(dict.fromkeys(self.kinds)))
        object.__setattr__(self, "degrees", tuple(sorted({*self.degrees} - {0.0})))
        return self


class NoisyTexts(NamedTuple):
    """The sampled texts, changed in one draw."""

    names: dict[str, str]
    """`kind`, `degree` and `draw`."""
    rows: list[tuple[str, ...]]
    touched: list[bool]
    """Whether the noise changed each of them."""
    units: dict[str, float | None]
    """How many units were `changed`, how many could be (`possible`), and how many there are (`units`)."""


def _draw_sample(rows: Sequence[Example], options: Options) -> list[Example]:
    n = min(options.num_examples or len(rows), len(rows))
    return [rows[i] for i in sorted(random.Random(options.seed).sample(range(len(rows)), n))]


def _change_texts(options: Options, context: VictimContext, examples: Sequence[Example]) -> Iterator[NoisyTexts]:
    """Yield the texts as they are, and then each draw of each kind and degree."""
    plain_rows = [noised_text.texts for noised_text in examples]
    no_units = dict.fromkeys(("changed", "possible", "units"), 0.0)
    yield NoisyTexts({"kind": NONE, "degree": "0", "draw": "0"}, plain_rows, [False] * len(plain_rows), {**no_units})
    changeable_columns = [(i, column) for i, column in enumerate(context.task.columns) if column not in options.protect]
    for kind in options.kinds:
        module = context.file("noise", kind)
        for degree in options.degrees:
            for draw in range(options.draws):
                named = {"kind": kind, "degree": f"{degree:g}", "draw": str(draw)}
                new_rows, units = [], Counter[str]()
                for texts in plain_rows:
                    new_texts = list(texts)
                    for i, column in changeable_columns:
                        # The seed names no victim, so that all victims read the same changed texts.
                        noised_text = noised(module, texts[i], degree, f"{options.seed}/{draw}/{kind}/{column}")
                        new_texts[i] = noised_text.text
                        units.update(
                            changed=noised_text.changed, possible=noised_text.possible, units=noised_text.units
                        )
                    new_rows.append(tuple(new_texts))
                touched = [row != before for row, before in zip(new_rows, plain_rows, strict=True)]
                yield NoisyTexts(named, new_rows, touched, {name: float(units[name]) for name in no_units})


def _build_rows(read: Sequence[tuple[str, NoisyTexts, list[int]]], answered: TextAnswers) -> Iterator[MeasuredRow]:
    """Yield what is stored of each set.

    Args:
        read: the defence, the set, and the places of its texts in `answered`.
    """
    has_tokens = len(answered.read) > 0
    places_of_plain = {
        defence: text_places for defence, noisy_texts, text_places in read if noisy_texts.names["kind"] == NONE
    }
    for defence, noisy_texts, text_places in read:
        plain_places = places_of_plain[defence]
        reads_the_same = [
            i == j or (has_tokens and answered.read[i] == answered.read[j])
            for i, j in zip(text_places, plain_places, strict=True)
        ]
        numbers = {
            "n": len(text_places),
            "texts": sum(noisy_texts.touched),
            "undone": sum(same and touched for same, touched in zip(reads_the_same, noisy_texts.touched, strict=True)),
            "tokens": sum(len(answered.read[i]) for i in text_places) if has_tokens else 0,
            "plain": sum(len(answered.read[i]) for i in plain_places) if has_tokens else 0,
        }
        once_only = answered.once if noisy_texts.names["kind"] == NONE and not defence else {}
        names = {**noisy_texts.names, "defence": defence, **answered.stored(text_places), **once_only}
        yield MeasuredRow(names=names, numbers={**numbers, **noisy_texts.units})


def _compute_scores(rows: Sequence[MeasuredRow], options: Mapping[str, Any]) -> tuple[Score, ...]:
    """Return the expected score of each label, under the label's name."""
    stored, label_scores = NoiseRows(tuple(rows)), []
    for label in list_labels(options):
        if (score := stored.score(label, NAME)) is not None:
            label_scores.append(score.model_copy(update={"name": label}))
    return tuple(label_scores)


def _is_of_one_degree(label: str) -> bool:
    return "@" in label or label.startswith(NONE)


@dataclass(frozen=True)
class NoiseScoreCell(Cell):
    """A label of one victim, over its seeds. All seeds read the same texts."""

    stored: Callable[[SeedRun], NoiseRows] = field(kw_only=True, compare=False, repr=False)

    def meaning(self, name: str) -> Meaning:
        return METRICS[name]

    @property
    def units(self) -> Hashable:
        return self.task  # all labels are of the same texts, with noise and without

    def score(self, name: str) -> Score | None:
        """Return the number. Its interval ends where scores do: of two seeds, Student's t goes far beyond."""
        number = super().score(name)
        if number is None or number.low is None or number.high is None or name == DROP:
            return number
        spec = self.done[0].job.measuring
        lowest = spec.task.of_kind.lowest_score if spec is not None else 0.0
        return number.model_copy(update={"low": max(number.low, lowest), "high": min(number.high, 1.0)})

    def share(self, part: str, whole: str) -> float | None:
        """Return the sum of one number of the rows over that of another, at the label's highest degree."""
        rows = [row for run in self.done for row in self.stored(run).of(self.label)]
        highest = max((float(row.names["degree"]) for row in rows), default=0.0)
        return divide_sums((row for row in rows if float(row.names["degree"]) == highest), part, whole)


def build_cells(results: Results) -> Grid[NoiseScoreCell]:
    """Return what victims did, by task, strategy, label and encoder, in the suite's order.

    Raises StoreError where the suite does not ask for noise.
    """
    plan, suite = results.plan, results.plan.suite
    named: list[tuple[Job, dict[str, str]]] = []
    order: dict[str, None] = {}
    for job in jobs_of_measure(results, NAME):
        encoder, task, finetune, _ = job.parts
        assert job.measuring is not None
        for label in list_labels(job.measuring.what.options):
            order[label] = None
            names = {"encoder": plan.draw(encoder).encoder, "task": task, "finetune": finetune, "label": label}
            named.append((job, names))

    @cache
    def stored(key: str) -> NoiseRows:
        return NoiseRows(read_rows(results, plan.job(key)).rows)

    def rows_of(run: SeedRun) -> NoiseRows:
        return stored(run.job.key)

    def make(**names: Any) -> NoiseScoreCell:
        def score(run: SeedRun, name: str) -> Score | None:
            return rows_of(run).score(names["label"], name)

        def values(run: SeedRun, name: str) -> Values | None:
            return read_values_by_place(results, run.job, lambda: rows_of(run).values(names["label"], name))

        return NoiseScoreCell(**names, stored=rows_of, read=NumberReading(METRICS[NAME], score, mean_score, values))

    tuned = dict.fromkeys(names["finetune"] for _, names in named)
    orders = {"task": suite.tasks, "finetune": tuned, "label": order, "encoder": suite.lineup}
    label_cells, axes = gather_cells(results, named, orders, make)
    task = "" if len(suite.tasks) == 1 else "{}/"
    return Grid(results, label_cells, **axes, spoken=lambda cell: [(task.format(cell.task) + cell.label, None)])


def build_paper_table(results: Results) -> Table:
    """Return a row for each kind: of each encoder the mean over degrees, the same after the defence, and tokens.

    The worst draws are in the layout full.
    """
    noise_cells = build_cells(results)
    rows: list[tuple[TableEntry, ...]] = []
    starts, shown = set[int](), [label for label in noise_cells.labels if "@" not in label]
    plain_labels = [label for label in shown if not label.endswith(NORMALISED)]
    defended = len(plain_labels) < len(shown)
    for task, finetune in dict.fromkeys((cell.task, cell.finetune) for cell in noise_cells.cells.values()):
        starts.add(len(rows))
        for label in plain_labels:
            without_defence = [
                noise_cells.cells.get((task, finetune, label, encoder)) for encoder in noise_cells.encoders
            ]
            with_defence = [
                noise_cells.cells.get((task, finetune, label + NORMALISED, encoder)) for encoder in noise_cells.encoders
            ]
            means, normalised_means = (
                mark_best_of_column([cell.number(NAME) if cell else None for cell in row_cells], "highest")
                for row_cells in (without_defence, with_defence)
            )
            tokens = [_more_tokens(cell) for cell in without_defence]
            rows.append(
                (
                    *_leading_entries(noise_cells, (task, finetune)),
                    label,
                    *means,
                    *(normalised_means if defended else ()),
                    *tokens,
                )
            )
    after_it = [f"Normalised, {row_cells}" for row_cells in noise_cells.encoders] if defended else []
    columns = [*noise_cells.encoders, *after_it, *(f"More tokens, {row_cells}" for row_cells in noise_cells.encoders)]
    return _build_table(noise_cells, "paper", (*_leading_entries(noise_cells), "Noise", *columns), rows, starts, shown)


def build_full_table(results: Results) -> Table:
    """Return a row for each kind, degree and encoder, with all numbers."""
    noise_cells = build_cells(results)
    rows: list[tuple[TableEntry, ...]] = []
    starts, full_labels = set[int](), [label for label in noise_cells.labels if "@" in label or label.startswith(NONE)]
    for (task, finetune, label, encoder), cell in noise_cells.cells.items():
        if label not in full_labels:
            continue
        leading = (*_leading_entries(noise_cells, (task, finetune)), label)
        if not rows or rows[-1][:-8] != leading:  # 8: the encoder and its numbers
            starts.add(len(rows))
        numbers = [cell.number(name) for name in METRICS]
        shares = (("changed", "units"), ("possible", "units"), ("undone", "texts"))
        reached, possible, undone = (Number(cell.share(*parts), percent=True) for parts in shares)
        rows.append((*leading, encoder, *numbers, reached, possible, _more_tokens(cell), undone))
    names = ("Score", "Worst draw", "Lost", "Changed", "Changeable", "Tokens", "Read as before")
    return _build_table(
        noise_cells, "full", (*_leading_entries(noise_cells), "Noise", "Encoder", *names), rows, starts, full_labels
    )


def _more_tokens(cell: NoiseScoreCell | None) -> Number | None:
    """Return by what share the changed texts have more tokens than the texts as they are, at the highest degree."""
    if cell is None or not cell.present:
        return None
    ratio = cell.share("tokens", "plain")
    return Number(None if ratio is None else ratio - 1, percent=True)


def _leading_entries(noise_cells: Grid[NoiseScoreCell], victim: tuple[str, str] | None = None) -> list[str]:
    """Return the entries before the noise, of those in which rows differ; without task and strategy their headings."""
    scores = score_names(noise_cells)
    task, finetune = victim or ("Task", "Fine-tuning")
    entries_of_axes = (
        (task, noise_cells.tasks),
        (scores.get(task, "Score"), set(scores.values())),
        (finetune, noise_cells.finetunes),
    )
    return [name for name, distinct in entries_of_axes if len(distinct) > 1]


def score_names(noise_cells: Grid[NoiseScoreCell]) -> dict[str, str]:
    """Return the name of the score of each task."""
    specs = (job.measuring.task for job in jobs_of_measure(noise_cells.results, NAME) if job.measuring is not None)
    return {task.name: task.of_kind.score for task in specs}


def open_kinds(results: Results, kinds: Iterable[str]) -> dict[str, NoiseKind]:
    """Return the modules of kinds of noise, by name, of those whose files are found: a user may not have given his."""
    modules: dict[str, NoiseKind] = {}
    for kind in kinds:
        with suppress(SuiteError):
            modules[kind] = results.metrics.opened("noise", kind)
    return modules


def describe_unit(results: Results, kind: str) -> str:
    """Return what a degree of a kind is, in words; `degree` where its file is not found."""
    if (module := open_kinds(results, [kind]).get(kind)) is None:
        return "degree"
    return f"clauses, of {MOST_CLAUSES}" if module.unit == "clauses" else f"share of {module.unit}"


def _build_meaning(noise_cells: Grid[NoiseScoreCell], layout: Layout) -> Meaning:
    """Return the meaning of the main number, with the name of its score where all tasks have the same.

    In the layout paper, whose rows are of all degrees, it names them.
    """
    scores = set(score_names(noise_cells).values())
    score = scores.pop() if len(scores) == 1 else ""
    title = f"{score[0].upper()}{score[1:]} under noise" if score else METRICS[NAME].title
    definition = f"{score or 'the score of the task'} on the texts with noise"
    definition = "the share of the texts with noise that are right" if score == "accuracy" else definition
    averaged_over = f"draws at each of the degrees {_format_degrees(noise_cells)}" if layout == "paper" else "draws"
    return replace(METRICS[NAME], title=title, definition=f"mean over {averaged_over} of {definition}")


def _format_degrees(noise_cells: Grid[NoiseScoreCell]) -> str:
    """Return the degrees of the suite, in words."""
    options = next(
        job.measuring.what.options for job in jobs_of_measure(noise_cells.results, NAME) if job.measuring is not None
    )
    return ", ".join(f"{degree:g}" for degree in options["degrees"])


def _build_table(
    noise_cells: Grid[NoiseScoreCell],
    layout: Layout,
    header: tuple[str, ...],
    rows: list[tuple[TableEntry, ...]],
    starts: set[int],
    shown: Sequence[str],
) -> Table:
    planned_jobs = jobs_of_measure(noise_cells.results, NAME)
    return Table(
        metric=NAME,
        layout=layout,
        header=header,
        rows=tuple(rows),
        groups=frozenset(starts - {0}),
        cells=tuple(_program_row(cell) for cell in noise_cells.cells.values() if cell.label in shown),
        notes=(
            *_build_notes(noise_cells, layout, planned_jobs),
            *noise_cells.plan.suite.notes,
            *(draw_notes(noise_cells.plan, planned_jobs) or [seeds_note(planned_jobs)]),
            *noise_cells.flags.notes(planned_jobs),
            *unfinished_notes("measurements under noise", planned_jobs, noise_cells.standing),
        ),
        interval="Of shares Wilson's 95% intervals, of other means Student's (of Spearman's correlation, of what each "
        "pair adds to it). They cover the choice of texts and, with several seeds, differences between seeds.",
        flags=noise_cells.flags.listed(planned_jobs),
        about=_build_meaning(noise_cells, layout),
        caption="Every degree of noise; shares in %" if layout == "full" else "",
    )


def _program_row(cell: NoiseScoreCell) -> dict[str, Any]:
    """Return a cell for programs: `value` is the score under noise."""
    return {
        "encoder": cell.encoder,
        "finetune": cell.finetune,
        "task": cell.task,
        "noise": cell.label,
        **cell.told(NAME, "seed_sd"),
        "worst": cell.told(WORST),
        "lost": cell.told(DROP),
        "tokens": None if (tokens_number := _more_tokens(cell)) is None else tokens_number.value,
        "undone": cell.share("undone", "texts"),
        "changed": cell.share("changed", "units"),
        "changeable": cell.share("possible", "units"),
        "flags": cell.results.flags.told(cell.jobs),
    }


def _build_notes(noise_cells: Grid[NoiseScoreCell], layout: Layout, planned_jobs: Sequence[Job]) -> list[str]:
    """Return what a reader must know of the numbers."""
    records = [record for cell in noise_cells.cells.values() for record in cell.records]
    specs = [job.measuring.what.options for job in planned_jobs if job.measuring is not None]
    options = specs[0]
    draws = options["draws"]
    sizes, num_without_letters = (
        {record.counts.get(name, 0) for record in records} for name in ("n", "texts_without_letters")
    )
    sample_size = f" (n {format_range(sizes)})" if sizes else ""
    meaning, scores = _build_meaning(noise_cells, "full"), score_names(noise_cells)
    score_of_tasks = [f" ({', '.join(f'{task}: {score}' for task, score in scores.items())})"] * (
        len({*scores.values()}) > 1
    )
    lines = [
        f"{meaning.title}: {meaning.definition}{''.join(score_of_tasks)}. {draws} draws at each of the degrees "
        f"{_format_degrees(noise_cells)}; all encoders read the same texts{sample_size}. {NONE}: the texts as they "
        "are. A text in which a kind finds nothing to change is read as it is, and counts."
    ]
    if layout == "paper":
        lines.append(
            "Of a kind, the mean over these degrees, each with the same weight; other degrees would give another mean. "
            "More tokens: by how many percent the texts with noise have more at the highest degree."
        )
    else:
        lines.append(
            "Worst draw: of each text the draw that did it the most harm. Lost: score without noise or defence, minus "
            "this one. Changed, changeable: shares of units. Tokens: how many more the changed texts have. Read as "
            "before: changed texts of which the tokenizer makes what it makes of the unchanged ones."
        )
    if options["defence"]:
        name = "Normalised" if layout == "paper" else NORMALISED
        lines.append(f"{name}: texts are normalised before they are read (rbench.noise.normalise).")
    lines.append(
        "; ".join(
            f"{kind}: {kind_module.title}"
            for kind, kind_module in open_kinds(noise_cells.results, options["kinds"]).items()
        )
        + "."
    )
    if protected := ", ".join(options["protect"]):
        lines.append(f"Left as they are: {protected}.")
    if any(num_without_letters):
        lines.append(f"Texts without letters, in which no letter can be changed: {format_range(num_without_letters)}.")
    return lines


class NoiseScores(Measure[Options]):
    """Noise: scores on texts that are changed as ordinary or hostile typing changes them, by kind and degree."""

    title = "Scores on texts with typing errors, look-alike letters and other noise, by degree"
    reads = "victims"
    serves = ("classification", "similarity", "ranking")
    files = {"kinds": "noise"}
    workload = "to read: {:,} texts with and without noise"
    layouts = {
        "paper": lambda results, wanted: build_paper_table(results),
        "full": lambda results, wanted: build_full_table(results),
    }
    numbers = METRICS

    def check(self, options: Options, suite: Suite) -> str | None:
        """Refuse a suite that asks for noise twice: its labels would stand for two numbers."""
        twice = sum(evaluation.name == NAME for evaluation in suite.evaluate) > 1
        return "a suite asks for noise once; put all kinds and degrees into one entry" if twice else None

    def check_task(self, options: Options, task: TaskSpec) -> str | None:
        """Refuse a task that lacks a protected column."""
        absent = [column for column in options.protect if column not in task.columns]
        problem = f"protect names the column {absent[0]}" if absent else ""
        return f"{problem}; {task.name} has the columns {', '.join(task.columns)}" if absent else None

    def run(self, options: Options, context: VictimContext) -> Measured:
        """Change the texts, ask the victim for each distinct one once, and return a row for each kind and draw.

        A row has what `answers` stores, packed, and counts: of texts (`n`), of those that the noise changed (`texts`),
        of these, those of which the victim's tokenizer makes the same as of the text without noise (`undone`), of
        tokens with and without noise (`tokens` and `plain`; 0 where a victim does not show them), and of units changed,
        changeable and all.
        """
        examples = _draw_sample(context.rows("test"), options)
        sets = list(_change_texts(options, context, examples))
        defences = {"": lambda text: text, **({"normalise": normalise} if options.defence else {})}
        place_of_text: dict[tuple[str, ...], int] = {}
        places_of_sets: list[tuple[str, NoisyTexts, list[int]]] = []
        defended = {name: cache(defend) for name, defend in defences.items()}
        # Rows with and without the defence stand side by side: where they are the same, they pack well.
        for noisy_texts in sets:
            for name, defend in defended.items():
                texts = [tuple(defend(text) for text in row) for row in noisy_texts.rows]
                places_of_sets.append(
                    (name, noisy_texts, [place_of_text.setdefault(row, len(place_of_text)) for row in texts])
                )
        answered = collect_answers(context, [*place_of_text], examples)
        rows = list(_build_rows(places_of_sets, answered))
        counts = {
            "n": len(examples),
            "texts_without_letters": sum(
                not any(map(str.isalpha, "".join(noisy_texts.texts))) for noisy_texts in examples
            ),
            "texts_cut": int(answered.cut[places_of_sets[0][2]].sum()),
        }
        return Measured(rows, _compute_scores(rows, options.model_dump()), counts)

    def examples(self, prepared: Any, job: Any) -> int:
        """Return how many texts a job reads."""
        options = Options.model_validate(job.spec.what.options)
        n = prepared.data[job.spec.task.name].sizes.get("test", 0)
        sets = 1 + len(options.kinds) * len(options.degrees) * options.draws
        return int(min(options.num_examples or n, n) * sets * (2 if options.defence else 1))

    def unlike(self, record: Record, lines: Sequence[MeasuredRow]) -> Iterator[str]:
        """Say which numbers of a record are not those of its rows.

        Up to VERSION 1 records also have the areas under curves over degrees, which nothing reads any more.
        """
        assert record.job.measuring is not None
        num_texts = int(lines[0].numbers["n"] or 0) if lines else 0
        recomputed = _compute_scores(lines, record.job.measuring.what.options)
        if record.job.measuring.versions.get(f"measures.{NAME}", 1) == 1:
            recomputed = tuple(score for score in recomputed if _is_of_one_degree(score.name))
            single_degree_scores = tuple(score for score in record.scores if _is_of_one_degree(score.name))
            record = record.model_copy(update={"scores": single_degree_scores})
        yield from find_unequal(record, recomputed, {"n": num_texts})

    def spoken(self, options: Mapping[str, Any], task: str, suite: Suite) -> list[str]:
        """Return the task and its name with each label (`_noise.list_spoken`)."""
        return list_spoken(options, task, suite)

    def labels(self, options: Mapping[str, Any]) -> list[str]:
        """Return the label of each kind and degree (`_noise.list_labels`)."""
        return list_labels(options)

    def cells(self, results: Results) -> Grid[NoiseScoreCell]:
        return build_cells(results)
