"""Semantic sensitivity (CLINE, section 4.6, Table 7): is a text nearer to itself with a synonym, or with an antonym?

A triplet is a text of MR, the text with one word replaced by a synonym, and the text with it replaced by an antonym,
from WordNet. It is a hit if the synonym's text is the nearer one by the hidden states of a layer: by the cosine of
first tokens (CLS) or of means of all tokens (MEAN), or by BERTScore (BS). The table shows the layer with the most hits,
as the paper does, so it is chosen on the triplets that it is counted on. The paper does not say which words it
replaces. Here both texts differ from the original in the same word, so that only the word decides.
"""

from __future__ import annotations

from rbench.measures import EncoderContext, Measure, MeasuredRow
from rbench.measures._by_encoder import EncoderGrid, EncoderRow, collect_by_encoder
from rbench.measures._stored import MeasuredJob
from rbench.schema import Count, Positive, Score, Strict, TaskSpec
from rbench.score import wilson
from rbench.tables import Results, Table
from rbench.tables.cells import MeasuredCell
from rbench.tables.table import Meaning, TableEntry, mark_best_of_column

VERSION = 1
USES = ("encoders.sentence", "resources.thesaurus")
NAME = "hits"
PART_TITLES = {"cls": "CLS", "mean": "MEAN", "bertscore": "BS"}
PART_NAMES = tuple(PART_TITLES)
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


class SynonymHits(Measure[Options]):
    """Semantic sensitivity (CLINE, Table 7): is a text nearer to itself with a synonym, or with an antonym?"""

    title = "Semantic sensitivity: synonyms nearer than antonyms, by layer (CLINE, Table 7)"
    reads = "encoders"
    network = True
    resources = ("synonyms", "pos_tagger")
    options_by_task = ("task",)
    ways = PART_NAMES
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
        """Return a row for each part and layer: the number of triplets and of hits, and all hits packed."""
        from rbench.measures._layers import find_hits, make_triplets
        from rbench.score.packed import pack_hits

        assert context.resources is not None
        rows = [example for split in context.splits for example in context.rows(split)]
        triplets_made = make_triplets(rows, context.resources.pos_tags, context.resources.thesaurus, options.seed)[
            : options.max_triplets
        ]
        hits_by_layer = find_hits(
            context.encoder, triplets_made, lambda done, total: context.progress(done, total, "triplets")
        )
        return [
            MeasuredRow(
                names={"part": part, "layer": str(layer), "hits": pack_hits(layer_hits)},
                numbers={"n": len(layer_hits), "hits": int(layer_hits.sum())},
            )
            for (part, layer), layer_hits in hits_by_layer.items()
        ]

    def table(self, options: Options, results: Results) -> Table:
        """Make one row for each task and encoder."""
        found = build_cells(results, options if options.model_fields_set else None, planned=False)
        shown = [(task, row) for task in found.tasks for row in found.rows]
        columns = [[found.number(row, task, part) for task, row in shown] for part in PART_TITLES]
        if len(found.tasks) == 1:  # the best of a column is marked among numbers of one task alone
            columns = [mark_best_of_column(column, "highest") for column in columns]
        rows: list[tuple[TableEntry, ...]] = []
        for i, (task, row) in enumerate(shown):
            sizes = [one.n for column in columns if (one := column[i]) is not None]
            own = zip(columns, PART_TITLES, strict=True)
            entries = [entry for column, part in own for entry in (column[i], format_layers(found, row, task, part))]
            rows.append((task, *found.names(row), max((n or 0 for n in sizes), default=None), *entries))
        headings = [heading for title in PART_TITLES.values() for heading in (title, "layer")]
        return Table(
            metric=NAME,
            header=("Task", *found.named, "n", *headings),
            rows=tuple(rows),
            cells=tuple(cell for task, row in shown for cell in _program_rows(found, row, task)),
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

    def cells(self, results: Results) -> EncoderGrid:
        return build_cells(results)


def best_layer(part: str, measured_job: MeasuredJob) -> MeasuredRow | None:
    """Return the row of the layer with the most hits, the lowest among equals; None where the encoder has no part."""
    rows = [row for row in measured_job.rows if row.names["part"] == part]
    # The layer is chosen on the triplets that it is counted on, as in the paper; the interval leaves that out.
    return max(rows, key=lambda row: (row.numbers["hits"] or 0, -int(row.names["layer"])), default=None)


def _score_part(measured_job: MeasuredJob, part: str) -> Score:
    """Return the share of hits in the best layer; without a value where the encoder has no part."""
    if (row := best_layer(part, measured_job)) is None:
        return Score(name=part, value=None, n=0)
    num_triplets, count = int(row.numbers["n"] or 0), int(row.numbers["hits"] or 0)
    low, high = wilson(count, num_triplets) or (None, None)
    return Score(name=part, value=count / num_triplets, n=num_triplets, low=low, high=high)


def build_cells(results: Results, options: Options | None = None, *, planned: bool = True) -> EncoderGrid:
    """Return the share of hits by part, of all encoders and tasks. Raises StoreError as `by_encoder` does."""

    def spoken(cell: MeasuredCell) -> list[tuple[str, str]]:
        return [(part if len(encoder_grid.tasks) == 1 else cell.task, part) for part in PART_TITLES]

    reading = (ABOUT, _score_part)
    encoder_grid = collect_by_encoder(
        results,
        NAME,
        options,
        reading,
        hits=lambda measured_job, part: best_layer(part, measured_job),
        spoken=spoken,
        planned=planned,
    )
    return encoder_grid


def format_layers(encoder_grid: EncoderGrid, row: EncoderRow, task: str, part: str) -> str:
    """Return the best layers of an encoder's trainings: `5`, `5, 6`, or nothing."""
    rows = [best_layer(part, layer_row) for layer_row in encoder_grid.of(row, task)]
    return ", ".join(dict.fromkeys(layer_row.names["layer"] for layer_row in rows if layer_row is not None))


def _program_rows(encoder_grid: EncoderGrid, row: EncoderRow, task: str) -> list[dict[str, object]]:
    encoder_cell = encoder_grid.cell(row, task)
    return [
        {
            "encoder": row[0],
            "task": task,
            "evaluation": row[1],
            "part": part,
            "layer": format_layers(encoder_grid, row, task, part),
            **encoder_cell.told(part),
            "flags": encoder_grid.flags.told(run.job for run in encoder_cell.done),
        }
        for part in PART_TITLES
        if encoder_cell is not None
    ]
