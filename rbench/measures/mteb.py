"""MTEB: the scores of an encoder on tasks of mteb, computed by mteb's own evaluators (Muennighoff et al. 2023).

    evaluate: [{mteb: {tasks: [mteb:STSBenchmark, mteb:Banking77Classification]}}]

rbench encodes, and mteb does all else by the task's own protocol. Classification: logistic regressions on few training
texts of each label. STS and pairs: correlation and average precision of similarities. Retrieval: nDCG of exact search.
So the numbers are those of MTEB's leaderboard, which the accuracy of a fine-tuned victim, or SentEval's protocol, are
not. `rbench table RUN --format mteb` writes them as mteb's result files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import field_validator

from rbench.config.mteb_tables import read_mteb_name
from rbench.errors import ResourceError
from rbench.measures import Column, EncoderContext, Measure, Measured, MeasuredRow
from rbench.schema import Record, Score, Strict
from rbench.system.progress import count_steps

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Part of the key of every job of mteb's evaluators (config/versions.py): raising it computes them anew.
VERSION = 1
USES = ("encoders.sentence",)
NAME = "mteb"
MAIN_SCORE = "main_score"


class Options(Strict):
    """Which tasks of mteb."""

    tasks: tuple[str, ...] = ("mteb:STSBenchmark",)
    """Tasks as suites name them: `mteb:NAME` or `mteb:NAME:SUBSET`."""

    @field_validator("tasks")
    @classmethod
    def _tasks_of_mteb(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        for task in tasks:
            try:
                read_mteb_name(task)
            except ResourceError as error:
                raise ValueError(str(error)) from None
        return tasks


class MtebScores(Measure[Options]):
    """MTEB: the scores of an encoder on tasks of mteb, computed by mteb's own evaluators."""

    title = "MTEB: an encoder's main score on tasks of mteb, by mteb's protocols"
    reads = "encoders"
    options_by_task = ("tasks",)
    required_scores = (MAIN_SCORE,)
    columns = (
        Column(
            MAIN_SCORE,
            "the main score of the task by mteb's evaluator",
            best="highest",
            title="Main score",
            percent=True,
            digits=2,
            undefined="mteb has no number",
        ),
    )

    def tasks(self, options: Options) -> Mapping[str, Options]:
        """Return the tasks to load, each with its own options."""
        return {task: Options(tasks=(task,)) for task in options.tasks}

    def run(self, options: Options, context: EncoderContext) -> Measured:
        """Let mteb evaluate the encoder. The record has all scores, and the row the main one and which it is."""
        (name,) = options.tasks
        task, subset, split = read_mteb_name(name).open_task()
        evaluated = task.evaluate(
            EncoderForMteb(context),
            split=split,
            subsets_to_run=[subset],
            encode_kwargs={"batch_size": 32, "show_progress_bar": False},
        )[subset]
        n = len(context.rows("test"))
        numbers = {score: _finite(value) for score, value in evaluated.items() if isinstance(value, int | float)}
        names = {"score": str(task.metadata.main_score)}
        row = MeasuredRow(names=names, numbers={MAIN_SCORE: numbers[MAIN_SCORE]})
        return Measured([row], tuple(Score(name=score, value=value, n=n) for score, value in numbers.items()), {"n": n})

    def unlike(self, record: Record, lines: Sequence[MeasuredRow]) -> Iterator[str]:
        """Compare the main score of the record with that of its row. The others follow from vectors alone."""
        (row,) = lines
        (score,) = (score for score in record.scores if score.name == MAIN_SCORE)
        if score.value != row.numbers[MAIN_SCORE]:
            yield f"{MAIN_SCORE} is {score.value} in the record and {row.numbers[MAIN_SCORE]} in the row"


class EncoderForMteb:
    """The encoder of a job with the methods that mteb's evaluators call (mteb's `EncoderProtocol`).

    The prompt for documents is read before documents alone. Vectors of other texts are remembered for later jobs.
    """

    mteb_model_meta = None

    def __init__(self, context: EncoderContext) -> None:
        assert context.remembered is not None
        self.remembered, self.progress = context.remembered, context.progress
        self.similarity_name = context.encoder.settings.similarity

    def encode(
        self, inputs: Iterable[Mapping[str, Any]], *, prompt_type: str | None = None, **_: Any
    ) -> NDArray[np.float32]:
        """Return the vectors (texts, dim) of all texts in mteb's batches."""
        texts = [text for batch in inputs for text in batch["text"]]
        distinct = list(dict.fromkeys(texts))
        encoder = self.remembered.encoder.for_documents() if prompt_type == "document" else self.remembered
        vectors = encoder.encode(distinct, "fastest", count_steps(self.progress, len(distinct), "texts encoded"))
        place = {text: i for i, text in enumerate(distinct)}
        return vectors[[place[text] for text in texts]]

    def similarity(self, vectors: Any, others: Any) -> Any:
        """Return the similarity of every two vectors, (vectors, others)."""
        from sentence_transformers import SimilarityFunction

        return SimilarityFunction.to_similarity_fn(self.similarity_name)(vectors, others)

    def similarity_pairwise(self, vectors: Any, others: Any) -> Any:
        """Return the similarity of each vector with the other one at its place, (vectors,)."""
        from sentence_transformers import SimilarityFunction

        return SimilarityFunction.to_similarity_pairwise_fn(self.similarity_name)(vectors, others)


def _finite(value: float) -> float | None:
    """Return a number; None for NaN, which mteb gives where a correlation is not defined."""
    return float(value) if math.isfinite(value) else None
