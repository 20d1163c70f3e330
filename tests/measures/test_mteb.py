"""The measure `mteb`: scores of each kind are those of mteb on the exported encoder, and mteb reads them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rbench import api
from rbench.errors import StoreError, SuiteError
from rbench.report.mteb_results import TaskScores
from rbench.schema import EncoderSpec
from rbench.store.runs import RunStore
from tests.mteb_rows import NAMES, give_rows, make_rows

ENCODER = "simcse-mini-packaged"


@pytest.fixture(scope="module")
def mteb() -> Any:
    """The package. It is not imported with this file, which each process of pytest-xdist does."""
    return pytest.importorskip("mteb", reason="the extra `mteb` is not installed")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, mteb: Any) -> Path:
    """A RUN of the measure on a task of each kind."""
    folder = tmp_path_factory.mktemp("mteb")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RBENCH_CACHE", str(folder / "cache"))
        give_rows(patched, make_rows())
        suite = {
            "name": "clean",
            "encoders": [ENCODER],
            "evaluate": [{"mteb": {"tasks": [f"mteb:{name}" for name in NAMES]}}],
        }
        result = api.run(suite, out=folder / "run", device="cpu")
        assert not result.failed
    return folder / "run"


def scores_of(run: Path) -> dict[str, dict[str, float | None]]:
    """By task, the scores that a RUN has."""
    return {
        record.job.spec.task.name: {score.name: score.value for score in record.scores}  # type: ignore[union-attr]
        for record in RunStore(run).records()
    }


@pytest.mark.nightly
def test_scores_of_each_kind_are_mtebs(made: Path, mteb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sentence_transformers import SentenceTransformer

    give_rows(monkeypatch, make_rows())
    api.export(ENCODER, tmp_path / "exported")
    model = mteb.SentenceTransformerEncoderWrapper(SentenceTransformer(str(tmp_path / "exported"), device="cpu"))
    options: dict[str, Any] = {"split": "test", "encode_kwargs": {"batch_size": 32, "show_progress_bar": False}}
    found = scores_of(made)
    assert {*found} == {*NAMES}
    for name, ours in found.items():
        by_mteb = mteb.get_task(name).evaluate(model, **options)["default"]
        main = mteb.get_task(name).metadata.main_score
        assert 0 < ours["main_score"] == ours[main] <= 1
        for score in ("main_score", main, *(("pearson", "manhattan_spearman") if name == "STSBenchmark" else ())):
            assert ours[score] == pytest.approx(by_mteb[score], abs=1e-6)


def test_mteb_reads_its_results_back(made: Path, mteb: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, found = api.write_mteb_results(made, tmp_path), scores_of(made)
    assert {path.stem for path in paths} == {*NAMES}
    loaded = mteb.ResultCache(tmp_path).load_results(validate_and_filter=True)
    (model,) = loaded.model_results
    assert model.model_name == ENCODER
    for result in model.task_results:
        ours = found[result.task_name]
        assert 0 < result.get_score() == pytest.approx(ours["main_score"], abs=1e-5)
        assert ours["main_score"] == ours[mteb.get_task(result.task_name).metadata.main_score] <= 1
        assert mteb.TaskResult.from_disk(tmp_path / paths[0].parent / f"{result.task_name}.json") == result
        assert result.dataset_revision == mteb.get_task(result.task_name).metadata.revision
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path))
    names = {result.task_name for result in mteb.load_results(download_latest=False).model_results[0].task_results}
    assert names == {*NAMES}


def test_a_revision_of_somebodys_run_leads_nowhere_else(made: Path) -> None:
    (record, *_) = RunStore(made).records()
    spec = EncoderSpec(name="e", title="E", base="owner/name", revision="../../../elsewhere")
    assert TaskScores(spec, "e", "mteb:x", record).model == ("owner/name", "..%2F..%2F..%2Felsewhere")


def test_one_result_is_a_file_of_mteb(made: Path, mteb: Any, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(api.table(made, fmt="mteb", only=["STSBenchmark"]), encoding="utf-8")
    result = mteb.TaskResult.from_disk(tmp_path / "one.json")
    assert result.get_score() == pytest.approx(scores_of(made)["STSBenchmark"]["cosine_spearman"], abs=1e-6)
    with pytest.raises(StoreError):
        api.table(made, fmt="mteb")


def test_main_scores_are_on_a_model_card(made: Path, mteb: Any) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub")
    card = huggingface_hub.ModelCard(api.table(made, metric="mteb", fmt="model-card"))
    by_data = {result.dataset_type: result.metric_value for result in card.data.eval_results}
    paths = {name: mteb.get_task(name).metadata.dataset["path"] for name in NAMES}
    assert by_data == {
        paths[name]: pytest.approx(100 * (own["main_score"] or 0), abs=1e-3) for name, own in scores_of(made).items()
    }


@pytest.mark.parametrize("task", ["stsb", "mteb:", "hf:owner/name"])
def test_tasks_of_others_are_refused(task: str, mteb: Any) -> None:
    suite = {"name": "s", "encoders": [ENCODER], "evaluate": [{"mteb": {"tasks": [task]}}]}
    with pytest.raises(SuiteError) as caught:
        api.plan(suite)
    assert task in str(caught.value)
