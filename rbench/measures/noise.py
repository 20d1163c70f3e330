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

from rbench.errors import JobError, SuiteError
from rbench.measures import Measure
from rbench.measures._answers import Answers, answers
from rbench.measures._context import Measured, VictimContext
from rbench.measures._noise import DROP, NAME, NONE, NORMALISED, WORST, Stored, share
from rbench.measures._noise import METRICS as METRICS
from rbench.measures._noise import labels as labels
from rbench.measures._noise import spoken as spoken
from rbench.measures._stored import jobs, read_rows
from rbench.noise import MOST_CLAUSES, NoiseKind, noised, normalise
from rbench.schema import Job, Meaning, MeasuredRow, Record, Score, Strict, Suite, TaskSpec
from rbench.schema.common import Count, Positive
from rbench.store.verify import unequal
from rbench.tables import Results, Table
from rbench.tables.cells import Grid, Reading, by_place, gathered, mean_of
from rbench.tables.cells import Measured as Cell
from rbench.tables.draws import notes as draw_notes
from rbench.tables.nested_means import Values
from rbench.tables.notes import missing, seeds, spanned
from rbench.tables.results import Run
from rbench.tables.table import Entry, Layout, Number, best_of

if TYPE_CHECKING:
    from rbench.tasks import Example

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
        if not self.degrees:
            raise ValueError("`degrees` needs one above 0")
        return self


class Changed(NamedTuple):
    """The sampled texts, changed in one draw."""

    names: dict[str, str]
    """`kind`, `degree` and `draw`."""
    rows: list[tuple[str, ...]]
    touched: list[bool]
    """Whether the noise changed each of them."""
    units: dict[str, float | None]
    """How many units were `changed`, how many could be (`possible`), and how many there are (`units`)."""


def _sample(rows: Sequence[Example], options: Options) -> list[Example]:
    n = min(options.num_examples or len(rows), len(rows))
    return [rows[i] for i in sorted(random.Random(options.seed).sample(range(len(rows)), n))]


def _changed(options: Options, context: VictimContext, examples: Sequence[Example]) -> Iterator[Changed]:
    """Yield the texts as they are, and then each draw of each kind and degree."""
    plain = [one.texts for one in examples]
    none = dict.fromkeys(("changed", "possible", "units"), 0.0)
    yield Changed({"kind": NONE, "degree": "0", "draw": "0"}, plain, [False] * len(plain), {**none})
    free = [(i, column) for i, column in enumerate(context.task.columns) if column not in options.protect]
    for kind in options.kinds:
        module = context.file("noise", kind)
        for at in options.degrees:
            for draw in range(options.draws):
                named = {"kind": kind, "degree": f"{at:g}", "draw": str(draw)}
                made, units = [], Counter[str]()
                for texts in plain:
                    new = list(texts)
                    for i, column in free:
                        one = noised(module, texts[i], at, f"{options.seed}/{draw}/{kind}/{column}")
                        new[i] = one.text
                        units.update(changed=one.changed, possible=one.possible, units=one.units)
                    made.append(tuple(new))
                touched = [row != before for row, before in zip(made, plain, strict=True)]
                yield Changed(named, made, touched, {name: float(units[name]) for name in none})


def _rows(read: Sequence[tuple[str, Changed, list[int]]], found: Answers) -> Iterator[MeasuredRow]:
    """Yield what is stored of each set.

    Args:
        read: the defence, the set, and the places of its texts in `found`.
    """
    shown = len(found.read) > 0
    plain = {defence: at for defence, one, at in read if one.names["kind"] == NONE}
    for defence, one, at in read:
        before = plain[defence]
        alike = [i == j or (shown and found.read[i] == found.read[j]) for i, j in zip(at, before, strict=True)]
        numbers = {
            "n": len(at),
            "texts": sum(one.touched),
            "undone": sum(same and touched for same, touched in zip(alike, one.touched, strict=True)),
            "tokens": sum(len(found.read[i]) for i in at) if shown else 0,
            "plain": sum(len(found.read[i]) for i in before) if shown else 0,
        }
        once = found.once if one.names["kind"] == NONE and not defence else {}
        names = {**one.names, "defence": defence, **found.stored(at), **once}
        yield MeasuredRow(names=names, numbers={**numbers, **one.units})


def _scores(rows: Sequence[MeasuredRow], options: Mapping[str, Any]) -> tuple[Score, ...]:
    """Return the expected score of each label, under the label's name."""
    stored, found = Stored(tuple(rows)), []
    for label in labels(options):
        if (score := stored.score(label, NAME)) is not None:
            found.append(score.model_copy(update={"name": label}))
    return tuple(found)


def _is_of_one_degree(label: str) -> bool:
    return "@" in label or label.startswith(NONE)


@dataclass(frozen=True)
class NoiseCell(Cell):
    """A label of one victim, over its seeds. All seeds read the same texts."""

    stored: Callable[[Run], Stored] = field(kw_only=True, compare=False, repr=False)

    def meaning(self, name: str) -> Meaning:
        return METRICS[name]

    @property
    def units(self) -> Hashable:
        return self.task  # all labels are of the same texts, with noise and without

    def known_as(self, name: str) -> Hashable:
        return self.label, super().known_as(name)

    def score(self, name: str) -> Score | None:
        """Return the number. Its interval ends where scores do: of two seeds, Student's t goes far beyond."""
        found = super().score(name)
        if found is None or found.low is None or found.high is None or name == DROP:
            return found
        spec = self.done[0].job.measuring
        least = spec.task.of_kind.lowest_score if spec is not None else 0.0
        return found.model_copy(update={"low": max(found.low, least), "high": min(found.high, 1.0)})

    def share(self, part: str, whole: str) -> float | None:
        """Return the sum of one number of the rows over that of another, at the label's highest degree."""
        rows = [row for run in self.done for row in self.stored(run).of(self.label)]
        highest = max((float(row.names["degree"]) for row in rows), default=0.0)
        return share((row for row in rows if float(row.names["degree"]) == highest), part, whole)


def cells(results: Results) -> Grid[NoiseCell]:
    """Return what victims did, by task, strategy, label and encoder, in the suite's order.

    Raises StoreError where the suite does not ask for noise.
    """
    plan, suite = results.plan, results.plan.suite
    named: list[tuple[Job, dict[str, str]]] = []
    order: dict[str, None] = {}
    for job in jobs(results, NAME):
        encoder, task, finetune, _ = job.parts
        assert job.measuring is not None
        for label in labels(job.measuring.what.options):
            order[label] = None
            names = {"encoder": plan.draw(encoder).encoder, "task": task, "finetune": finetune, "label": label}
            named.append((job, names))

    @cache
    def stored(key: str) -> Stored:
        return Stored(read_rows(results, plan.job(key)).rows)

    def of(run: Run) -> Stored:
        return stored(run.job.key)

    def make(**names: Any) -> NoiseCell:
        def score(run: Run, name: str) -> Score | None:
            return of(run).score(names["label"], name)

        def values(run: Run, name: str) -> Values | None:
            return by_place(results, run.job, lambda: of(run).values(names["label"], name))

        return NoiseCell(**names, stored=of, read=Reading(METRICS[NAME], score, mean_of, values))

    tuned = dict.fromkeys(names["finetune"] for _, names in named)
    orders = {"task": suite.tasks, "finetune": tuned, "label": order, "encoder": suite.lineup}
    found, axes = gathered(results, named, orders, make)
    task = "" if len(suite.tasks) == 1 else "{}/"
    return Grid(results, found, **axes, spoken=lambda cell: [(task.format(cell.task) + cell.label, None)])


def paper(results: Results) -> Table:
    """Return a row for each kind: of each encoder the mean over degrees, the same after the defence, and tokens.

    The worst draws are in the layout full.
    """
    of = cells(results)
    rows: list[tuple[Entry, ...]] = []
    starts, shown = set[int](), [label for label in of.labels if "@" not in label]
    plain = [label for label in shown if not label.endswith(NORMALISED)]
    defended = len(plain) < len(shown)
    for task, finetune in dict.fromkeys((cell.task, cell.finetune) for cell in of.cells.values()):
        starts.add(len(rows))
        for label in plain:
            own = [of.cells.get((task, finetune, label, encoder)) for encoder in of.encoders]
            after = [of.cells.get((task, finetune, label + NORMALISED, encoder)) for encoder in of.encoders]
            means, normal = (
                best_of([cell.number(NAME) if cell else None for cell in one], "highest") for one in (own, after)
            )
            tokens = [_more(cell) for cell in own]
            rows.append((*_places(of, (task, finetune)), label, *means, *(normal if defended else ()), *tokens))
    after_it = [f"Normalised, {one}" for one in of.encoders] if defended else []
    columns = [*of.encoders, *after_it, *(f"More tokens, {one}" for one in of.encoders)]
    return _table(of, "paper", (*_places(of), "Noise", *columns), rows, starts, shown)


def full(results: Results) -> Table:
    """Return a row for each kind, degree and encoder, with all numbers."""
    of = cells(results)
    rows: list[tuple[Entry, ...]] = []
    starts, shown = set[int](), [label for label in of.labels if "@" in label or label.startswith(NONE)]
    for (task, finetune, label, encoder), cell in of.cells.items():
        if label not in shown:
            continue
        named = (*_places(of, (task, finetune)), label)
        if not rows or rows[-1][:-8] != named:  # 8: the encoder and its numbers
            starts.add(len(rows))
        numbers = [cell.number(name) for name in METRICS]
        shares = (("changed", "units"), ("possible", "units"), ("undone", "texts"))
        reached, possible, undone = (Number(cell.share(*parts), percent=True) for parts in shares)
        rows.append((*named, encoder, *numbers, reached, possible, _more(cell), undone))
    names = ("Score", "Worst draw", "Lost", "Changed", "Changeable", "Tokens", "Read as before")
    return _table(of, "full", (*_places(of), "Noise", "Encoder", *names), rows, starts, shown)


def _more(cell: NoiseCell | None) -> Number | None:
    """Return by what share the changed texts have more tokens than the texts as they are, at the highest degree."""
    if cell is None or not cell.present:
        return None
    ratio = cell.share("tokens", "plain")
    return Number(None if ratio is None else ratio - 1, percent=True)


def _places(of: Grid[NoiseCell], victim: tuple[str, str] | None = None) -> list[str]:
    """Return the entries before the noise, of those in which rows differ; without task and strategy their headings."""
    scores = scores_of(of)
    task, finetune = victim or ("Task", "Fine-tuning")
    named = ((task, of.tasks), (scores.get(task, "Score"), set(scores.values())), (finetune, of.finetunes))
    return [name for name, own in named if len(own) > 1]


def scores_of(of: Grid[NoiseCell]) -> dict[str, str]:
    """Return the name of the score of each task."""
    specs = (job.measuring.task for job in jobs(of.results, NAME) if job.measuring is not None)
    return {task.name: task.of_kind.score for task in specs}


def kinds_of(results: Results, kinds: Iterable[str]) -> dict[str, NoiseKind]:
    """Return the modules of kinds of noise, by name, of those whose files are found: a user may not have given his."""
    found: dict[str, NoiseKind] = {}
    for kind in kinds:
        with suppress(SuiteError):
            found[kind] = results.metrics.opened("noise", kind)
    return found


def unit_of(results: Results, kind: str) -> str:
    """Return what a degree of a kind is, in words; `degree` where its file is not found."""
    if (module := kinds_of(results, [kind]).get(kind)) is None:
        return "degree"
    return f"clauses, of {MOST_CLAUSES}" if module.unit == "clauses" else f"share of {module.unit}"


def _meaning(of: Grid[NoiseCell], layout: Layout) -> Meaning:
    """Return the meaning of the main number, with the name of its score where all tasks have the same.

    In the layout paper, whose rows are of all degrees, it names them.
    """
    scores = set(scores_of(of).values())
    score = scores.pop() if len(scores) == 1 else ""
    title = f"{score[0].upper()}{score[1:]} under noise" if score else METRICS[NAME].title
    what = f"{score or 'the score of the task'} on the texts with noise"
    what = "the share of the texts with noise that are right" if score == "accuracy" else what
    over = f"draws at each of the degrees {_degrees(of)}" if layout == "paper" else "draws"
    return replace(METRICS[NAME], title=title, definition=f"mean over {over} of {what}")


def _degrees(of: Grid[NoiseCell]) -> str:
    """Return the degrees of the suite, in words."""
    options = next(job.measuring.what.options for job in jobs(of.results, NAME) if job.measuring is not None)
    return ", ".join(f"{one:g}" for one in options["degrees"])


def _table(
    of: Grid[NoiseCell],
    layout: Layout,
    header: tuple[str, ...],
    rows: list[tuple[Entry, ...]],
    starts: set[int],
    shown: Sequence[str],
) -> Table:
    asked_of = jobs(of.results, NAME)
    return Table(
        metric=NAME,
        layout=layout,
        header=header,
        rows=tuple(rows),
        groups=frozenset(starts - {0}),
        cells=tuple(_told(cell) for cell in of.cells.values() if cell.label in shown),
        notes=(
            *_notes(of, layout, asked_of),
            *of.plan.suite.notes,
            *(draw_notes(of.plan, asked_of) or [seeds(asked_of)]),
            *of.flags.notes(asked_of),
            *missing("measurements under noise", asked_of, of.standing),
        ),
        interval="Of shares Wilson's 95% intervals, of other means Student's (of Spearman's correlation, of what each "
        "pair adds to it). They cover the choice of texts and, with several seeds, differences between seeds.",
        flags=of.flags.listed(asked_of),
        about=_meaning(of, layout),
        caption="Every degree of noise; shares in %" if layout == "full" else "",
    )


def _told(cell: NoiseCell) -> dict[str, Any]:
    """Return a cell for programs: `value` is the score under noise."""
    return {
        "encoder": cell.encoder,
        "finetune": cell.finetune,
        "task": cell.task,
        "noise": cell.label,
        **cell.told(NAME, "seed_sd"),
        "worst": cell.told(WORST),
        "lost": cell.told(DROP),
        "tokens": None if (more := _more(cell)) is None else more.value,
        "undone": cell.share("undone", "texts"),
        "changed": cell.share("changed", "units"),
        "changeable": cell.share("possible", "units"),
        "flags": cell.results.flags.told(cell.jobs),
    }


def _notes(of: Grid[NoiseCell], layout: Layout, asked_of: Sequence[Job]) -> list[str]:
    """Return what a reader must know of the numbers."""
    records = [record for cell in of.cells.values() for record in cell.records]
    specs = [job.measuring.what.options for job in asked_of if job.measuring is not None]
    options = specs[0]
    draws = options["draws"]
    sizes, bare = ({record.counts.get(name, 0) for record in records} for name in ("n", "texts_without_letters"))
    read = f" (n {spanned(sizes)})" if sizes else ""
    about, scores = _meaning(of, "full"), scores_of(of)
    several = [f" ({', '.join(f'{task}: {score}' for task, score in scores.items())})"] * (len({*scores.values()}) > 1)
    said = [
        f"{about.title}: {about.definition}{''.join(several)}. {draws} draws at each of the degrees {_degrees(of)}; "
        f"all encoders read the same texts{read}. {NONE}: the texts as they are. A text in which a kind finds nothing "
        "to change is read as it is, and counts."
    ]
    if layout == "paper":
        said.append(
            "Of a kind, the mean over these degrees, each with the same weight; other degrees would give another mean. "
            "More tokens: by how many percent the texts with noise have more at the highest degree."
        )
    else:
        said.append(
            "Worst draw: of each text the draw that did it the most harm. Lost: score without noise or defence, minus "
            "this one. Changed, changeable: shares of units. Tokens: how many more the changed texts have. Read as "
            "before: changed texts of which the tokenizer makes what it makes of the unchanged ones."
        )
    if options["defence"]:
        name = "Normalised" if layout == "paper" else NORMALISED
        said.append(f"{name}: texts are normalised before they are read (rbench.noise.normalise).")
    said.append("; ".join(f"{kind}: {one.title}" for kind, one in kinds_of(of.results, options["kinds"]).items()) + ".")
    if protected := ", ".join(options["protect"]):
        said.append(f"Left as they are: {protected}.")
    if any(bare):
        said.append(f"Texts without letters, in which no letter can be changed: {spanned(bare)}.")
    return said


class Noise(Measure[Options]):
    """Noise: scores on texts that are changed as ordinary or hostile typing changes them, by kind and degree."""

    title = "Scores on texts with typing errors, look-alike letters and other noise, by degree"
    reads = "victims"
    serves = ("classification", "similarity", "ranking")
    files = {"kinds": "noise"}
    workload = "to read: {:,} texts with and without noise"
    layouts = {
        "paper": lambda results, wanted: paper(results),
        "full": lambda results, wanted: full(results),
    }
    numbers = METRICS

    def check(self, options: Options, suite: Suite) -> str | None:
        """Refuse a suite that asks for noise twice: its labels would stand for two numbers."""
        twice = sum(one.name == NAME for one in suite.evaluate) > 1
        return "a suite asks for noise once; put all kinds and degrees into one entry" if twice else None

    def check_task(self, options: Options, task: TaskSpec) -> str | None:
        """Refuse a task that lacks a protected column."""
        absent = [column for column in options.protect if column not in task.columns]
        said = f"protect names the column {absent[0]}" if absent else ""
        return f"{said}; {task.name} has the columns {', '.join(task.columns)}" if absent else None

    def run(self, options: Options, context: VictimContext) -> Measured:
        """Change the texts, ask the victim for each distinct one once, and return a row for each kind and draw.

        A row has what `answers` stores, packed, and counts: of texts (`n`), of those that the noise changed (`texts`),
        of these, those of which the victim's tokenizer makes the same as of the text without noise (`undone`), of
        tokens with and without noise (`tokens` and `plain`; 0 where a victim does not show them), and of units changed,
        changeable and all.

        Raises JobError where there is no text.
        """
        examples = _sample(context.rows("test"), options) if "test" in context.splits else []
        if not examples:
            raise JobError(f"{context.task.name} has no test text, so there is nothing to change")
        sets = list(_changed(options, context, examples))
        defences = {"": lambda text: text, **({"normalise": normalise} if options.defence else {})}
        index: dict[tuple[str, ...], int] = {}
        read: list[tuple[str, Changed, list[int]]] = []
        defended = {name: cache(defend) for name, defend in defences.items()}
        for (
            one
        ) in sets:  # rows with and without the defence stand side by side: where they are the same, they pack well
            for name, defend in defended.items():
                texts = [tuple(defend(text) for text in row) for row in one.rows]
                read.append((name, one, [index.setdefault(row, len(index)) for row in texts]))
        found = answers(context, [*index], examples)
        rows = list(_rows(read, found))
        counts = {
            "n": len(examples),
            "texts_without_letters": sum(not any(map(str.isalpha, "".join(one.texts))) for one in examples),
            "texts_cut": int(found.cut[read[0][2]].sum()),
        }
        return Measured(rows, _scores(rows, options.model_dump()), counts)

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
        n = int(lines[0].numbers["n"] or 0) if lines else 0
        ours = _scores(lines, record.job.measuring.what.options)
        if record.job.measuring.versions.get(f"measures.{NAME}", 1) == 1:
            ours = tuple(score for score in ours if _is_of_one_degree(score.name))
            kept = tuple(score for score in record.scores if _is_of_one_degree(score.name))
            record = record.model_copy(update={"scores": kept})
        yield from unequal(record, ours, {"n": n})

    def spoken(self, options: Mapping[str, Any], task: str, suite: Suite) -> list[str]:
        """Return the task and its name with each label (`_noise.spoken`)."""
        return spoken(options, task, suite)

    def labels(self, options: Mapping[str, Any]) -> list[str]:
        """Return the label of each kind and degree (`_noise.labels`)."""
        return labels(options)

    def cells(self, results: Results) -> Grid[NoiseCell]:
        return cells(results)
