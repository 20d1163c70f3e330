"""The format `mteb`: scores of the measure `mteb` as mteb's result files, which mteb and its leaderboard read.

Only scores that mteb's evaluators computed become such files: the accuracy of a fine-tuned victim, or a correlation by
another protocol, has the same name and is another number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.mteb_tables import read_mteb_name
from rbench.errors import StoreError
from rbench.schema import EncoderSpec, Record
from rbench.tables import Results

MEASURE = "mteb"


class TaskScores(NamedTuple):
    """The scores of an encoder on a task of mteb."""

    encoder: EncoderSpec
    label: str
    """The encoder in the names of jobs, with the seed of its training where there are several."""
    task: str
    """As suites name it: `mteb:NAME`."""
    record: Record

    @property
    def model(self) -> tuple[str, str]:
        """The model's name and revision as mteb has them: those of the hub, or the encoder's name and the hash of its
        weights."""
        spec = self.encoder
        if spec.base is not None and spec.base.count("/") == 1 and spec.train is None and not spec.base.startswith("."):
            return spec.base, spec.revision or "no_revision_available"
        return self.label, self.record.provenance.weights_hash or "no_revision_available"

    def build(self) -> Any:
        """Return mteb's `TaskResult`."""
        import mteb

        task, subset, split = read_mteb_name(self.task).find()
        scores = {score.name: score.value for score in self.record.scores}
        version = self.record.provenance.packages.get("mteb")
        return mteb.TaskResult.from_task_results(
            task,
            {split: {subset: scores | ({"mteb_version": version} if version else {})}},
            evaluation_time=self.record.provenance.seconds,
        )


def render_mteb_result(results: Results) -> str:
    """Return the only result of a RUN as JSON. Raises StoreError where it has none or several."""
    task_scores = list(_iterate_scores(results))
    if len(task_scores) != 1:
        names = ", ".join(f"{scores.label} on {scores.task}" for scores in task_scores)
        raise StoreError(
            f"{results.root} has {len(task_scores)} results of mteb ({names}), and a file has one: --out FOLDER writes "
            "a file for each"
        )
    return str(task_scores[0].build().model_dump_json(indent=2))


def write_mteb_results(results: Results, folder: Path) -> list[Path]:
    """Write a file for each encoder and task, `results/MODEL/REVISION/TASK.json`, into a folder that
    `mteb.ResultCache(FOLDER).load_results()` reads. Return the files.

    Raises StoreError where the RUN has no scores of the measure `mteb`.
    """
    import mteb
    from mteb.models.model_meta import ModelMeta

    cache, paths = mteb.ResultCache(folder), []
    for scores in _iterate_scores(results):
        name, revision = scores.model
        meta = ModelMeta.create_empty({"name": name, "revision": revision})
        result = scores.build()
        cache.save_to_cache(result, meta)
        paths.append(Path(cache.get_task_result_path(model_name=meta, task_name=result.task_name)))
    return paths


def _iterate_scores(results: Results) -> Iterator[TaskScores]:
    jobs = [job for job in results.plan.jobs if job.measuring is not None and job.measuring.what.name == MEASURE]
    complete = [
        (job, record)
        for job in jobs
        if (record := results.standing.records.get(job.key)) is not None and record.status == "complete"
    ]
    if not complete:
        raise StoreError(
            f"{results.root} has no scores by mteb's protocols; a suite asks for them with `evaluate: [{{mteb: "
            "{tasks: [mteb:NAME]}}]`"
        )
    for job, record in complete:
        assert job.measuring is not None and job.measuring.encoder is not None
        (task,) = job.measuring.what.options["tasks"]
        yield TaskScores(job.measuring.encoder, job.parts[0], task, record)
