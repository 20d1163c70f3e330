"""Semantic sensitivity (CLINE, section 4.6, Table 7): is a text nearer to itself with a synonym, or with an antonym?

A triplet is a text of MR, the text with one word replaced by a synonym, and the text with it replaced by an antonym,
from WordNet. It is a hit if the synonym's text is the nearer one by the hidden states of a layer: by the cosine of
first tokens (CLS) or of means of all tokens (MEAN), or by BERTScore (BS). The table shows the layer with the most hits,
as the paper does, so it is chosen on the triplets that it is counted on. The paper does not say which words it
replaces. Here both texts differ from the original in the same word, so that only the word decides.
"""

from __future__ import annotations

from rbench.errors import JobError
from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import ByEncoder, Row, by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Count, Positive, Score, Strict, TaskSpec
from rbench.score import wilson
from rbench.tables import Results, Table
from rbench.tables.cells import Measured
from rbench.tables.table import Entry, Meaning, best_of

VERSION = 1
USES = ("encoders.sentence", "resources.thesaurus")
NAME = "hits"
PARTS = {"cls": "CLS", "mean": "MEAN", "bertscore": "BS"}
WAYS = tuple(PARTS)
"""What stands for tasks in claims where there is one task, as in the paper's table."""
ABOUT = Meaning(
    "Semantic sensitivity",
    "share of triplets in which the text with a synonym is nearer to the original than the text with an antonym, by "
    "the best layer",
    "highest",
    undefined="the encoder has no such vector",
    good="better",
    among="of each column",
)


class Options(Strict):
    """Which texts are edited."""

    task: str = "mr"
    """A task of single texts; all of its splits are used."""
    seed: Count = 0
    """Draws the word where several words of a text have both a synonym and an antonym."""
    max_triplets: Positive | None = None
    """At most this many triplets, the first ones, for a quick look. None: all."""


class Hits(Measure[Options]):
    """Semantic sensitivity (CLINE, Table 7): is a text nearer to itself with a synonym, or with an antonym?"""

    title = "Semantic sensitivity: synonyms nearer than antonyms, by layer (CLINE, Table 7)"
    reads = "encoders"
    network = True
    resources = ("synonyms", "pos_tagger")
    options_by_task = ("task",)
    ways = WAYS
    numbers = {"hits": ABOUT}

    def tasks(self, options: Options) -> dict[str, Options]:
        """Return the task to load."""
        return {options.task: options}

    def splits(self, options: Options, task: TaskSpec) -> tuple[str, ...]:
        """Return no split: all that there are will do. Raises ValueError for a task of pairs."""
        if len(task.columns) != 1:
            raise ValueError(
                f"task {task.name} has {len(task.columns)} columns of text; triplets are made of single texts"
            )
        return ()

    def run(self, options: Options, context: EncoderContext) -> list[MeasuredRow]:
        """Return a row for each part and layer: the number of triplets and of hits, and all hits packed.

        Raises JobError where no text has a word with both a synonym and an antonym.
        """
        from rbench.measures._layers import hits, triplets
        from rbench.score.packed import packed

        assert context.resources is not None
        rows = [one for split in context.splits for one in context.rows(split)]
        made = triplets(rows, context.resources.pos_tags, context.resources.thesaurus, options.seed)[
            : options.max_triplets
        ]
        if not made:
            raise JobError(
                f"no text of {context.task.name} has a word with both a synonym and an antonym in the thesaurus, so "
                "there is no triplet to count"
            )
        found = hits(context.encoder, made, lambda done, of: context.progress(done, of, "triplets"))
        return [
            MeasuredRow(
                names={"part": part, "layer": str(layer), "hits": packed(own)},
                numbers={"n": len(own), "hits": int(own.sum())},
            )
            for (part, layer), own in found.items()
        ]

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each task and encoder."""
        found = cells(results, options if options.model_fields_set else None, planned=False)
        shown = [(task, row) for task in found.tasks for row in found.rows]
        columns = [[found.number(row, task, part) for task, row in shown] for part in PARTS]
        if len(found.tasks) == 1:  # shares of different tasks do not compete
            columns = [best_of(column, "highest") for column in columns]
        rows: list[tuple[Entry, ...]] = []
        for i, (task, row) in enumerate(shown):
            sizes = [one.n for column in columns if (one := column[i]) is not None]
            own = zip(columns, PARTS, strict=True)
            entries = [entry for column, part in own for entry in (column[i], layers(found, row, task, part))]
            rows.append((task, *found.names(row), max((n or 0 for n in sizes), default=None), *entries))
        headings = [heading for title in PARTS.values() for heading in (title, "layer")]
        return Table(
            metric=NAME,
            header=("Task", *found.named, "n", *headings),
            rows=tuple(rows),
            cells=tuple(cell for task, row in shown for cell in _cells(found, row, task)),
            notes=(
                "n: triplets. A triplet is a text, the text with one word replaced by a synonym, and with it replaced "
                "by an antonym. Equal similarities are no hit. The layer with the most hits is shown, chosen on the "
                "same triplets. A coin hits 50%.",
                *found.common_notes(),
            ),
            interval=found.interval("Wilson 95% intervals, which leave out that the layer was chosen."),
            flags=found.flags.listed(found.asked),
            about=ABOUT,
        )

    def cells(self, results: Results) -> ByEncoder:
        return cells(results)


def best(part: str, one: MeasuredJob) -> MeasuredRow | None:
    """Return the row of the layer with the most hits, the lowest among equals; None where the encoder has no part."""
    rows = [row for row in one.rows if row.names["part"] == part]
    return max(rows, key=lambda row: (row.numbers["hits"] or 0, -int(row.names["layer"])), default=None)


def _score(one: MeasuredJob, part: str) -> Score:
    """Return the share of hits in the best layer; without a value where the encoder has no part."""
    if (row := best(part, one)) is None:
        return Score(name=part, value=None, n=0)
    n, count = int(row.numbers["n"] or 0), int(row.numbers["hits"] or 0)
    low, high = wilson(count, n) or (None, None)
    return Score(name=part, value=count / n, n=n, low=low, high=high)


def cells(results: Results, options: Options | None = None, *, planned: bool = True) -> ByEncoder:
    """Return the share of hits by part, of all encoders and tasks. Raises StoreError as `by_encoder` does."""

    def spoken(cell: Measured) -> list[tuple[str, str]]:
        return [(part if len(found.tasks) == 1 else cell.task, part) for part in PARTS]

    read = (ABOUT, _score)
    found = by_encoder(
        results, NAME, options, read, hits=lambda one, part: best(part, one), spoken=spoken, planned=planned
    )
    return found


def layers(found: ByEncoder, row: Row, task: str, part: str) -> str:
    """Return the best layers of an encoder's trainings: `5`, `5, 6`, or nothing."""
    rows = [best(part, one) for one in found.of(row, task)]
    return ", ".join(dict.fromkeys(one.names["layer"] for one in rows if one is not None))


def _cells(found: ByEncoder, row: Row, task: str) -> list[dict[str, object]]:
    of = found.cell(row, task)
    return [
        {
            "encoder": row[0],
            "task": task,
            "evaluation": row[1],
            "part": part,
            "layer": layers(found, row, task, part),
            **of.told(part),
            "flags": found.flags.told(run.job for run in of.done),
        }
        for part in PARTS
        if of is not None
    ]
