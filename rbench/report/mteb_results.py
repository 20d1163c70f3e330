"""The format `mteb`: scores of the measure `mteb` as mteb's result files, which mteb and its leaderboard read.

Only scores that mteb's evaluators computed become such files: the accuracy of a fine-tuned victim, or a correlation by
another protocol, has the same name and is another number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from rbench.config.mteb_tables import read_mteb_name
from rbench.errors import StoreError
from rbench.schema import EncoderSpec, Record
from rbench.store.runs import folder_name
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
        weights. mteb makes a folder of the revision, which here leads nowhere else."""
        spec = self.encoder
        base = spec.base or ""
        is_of_hub = base.count("/") == 1 and not base.startswith(".")  # otherwise a folder, or no base at all
        if is_of_hub and spec.train is None:
            return base, folder_name(spec.revision or "no_revision_available")
        return self.label, folder_name(self.record.provenance.weights_hash or "no_revision_available")

    def build(self) -> Any:
        """Return mteb's `TaskResult`."""
        import mteb

        task, subset, split = read_mteb_name(self.task).find()
        scores: dict[str, Any] = {score.name: score.value for score in self.record.scores}
        version = self.record.provenance.packages.get("mteb")
        if version:
            scores["mteb_version"] = version
        seconds = self.record.provenance.seconds
        return mteb.TaskResult.from_task_results(task, {split: {subset: scores}}, evaluation_time=seconds)


def render_mteb_result(results: Results) -> str:
    """Return the only result of a RUN as JSON. Raises StoreError where it has none or several."""
    task_scores = _list_scores(results)
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
    for scores in _list_scores(results):
        name, revision = scores.model
        meta = ModelMeta.create_empty({"name": name, "revision": revision})
        result = scores.build()
        cache.save_to_cache(result, meta)
        paths.append(Path(cache.get_task_result_path(model_name=meta, task_name=result.task_name)))
    return paths


def _list_scores(results: Results) -> list[TaskScores]:
    """Return the scores of all jobs of the measure that are done. Raises StoreError where there are none."""
    task_scores = []
    for job in results.plan.jobs:
        measuring, record = job.measuring, results.standing.records.get(job.key)
        if measuring is None or measuring.what.name != MEASURE or record is None or record.status != "complete":
            continue
        assert measuring.encoder is not None
        (task,) = measuring.what.options["tasks"]
        task_scores.append(TaskScores(measuring.encoder, job.parts[0], task, record))
    if not task_scores:
        raise StoreError(
            f"{results.root} has no scores by mteb's protocols; a suite asks for them with `evaluate: [{{mteb: "
            "{tasks: [mteb:NAME]}}]`"
        )
    return task_scores
