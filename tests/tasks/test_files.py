"""Tests every task file in the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import rbench.tasks
from rbench.hub import COMMIT, REPO_ID
from rbench.spec import TaskSpec
from rbench.tasks import local, split

FOLDER = Path(rbench.tasks.__file__).parent
CORPORA = sorted(FOLDER / f"{name}.yaml" for name in ("corpus", "wiki1m"))
FILES = sorted({path for path in FOLDER.glob("*.yaml") if not path.stem.startswith("mini-")} - {*CORPORA})
ASKED_FOR = {
    "imdb", "mr", "sst2", "yelp", "mrpc", "snli", "mnli_matched", "mnli_mismatched", "ag_news", "dbpedia", "cr", "subj",
    "mpqa", "trec", "perspectrum", "boolq",
}  # fmt: skip
NOT_ON_THE_HUB = {"perspectrum"}
"""As far as is known; their notes say where to get them."""


def read(path: Path) -> TaskSpec:
    return TaskSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_all_tasks_that_the_papers_attack_are_there() -> None:
    assert {path.stem for path in FILES} >= ASKED_FOR


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_is_a_task_that_says_where_it_comes_from(path: Path) -> None:
    spec = read(path)
    assert spec.name == path.stem
    assert spec.title and spec.reference and spec.licence
    assert len(spec.columns) == (1 if spec.kind == "single" else 2)
    assert (spec.kind == "sts") == (not spec.labels)
    assert len(set(spec.labels)) == len(spec.labels)
    if spec.kind == "nli":
        assert spec.columns == ("premise", "hypothesis")
        assert spec.labels == ("entailment", "neutral", "contradiction")


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem not in NOT_ON_THE_HUB], ids=lambda path: path.stem
)
def test_hub_data_is_pinned_and_complete(path: Path) -> None:
    spec = read(path)
    assert spec.hub is not None
    assert REPO_ID.fullmatch(spec.hub.id)
    assert COMMIT.fullmatch(spec.hub.revision) or any("main" in note for note in spec.notes)
    label = "score" if spec.kind == "sts" else "label"
    assert set(spec.hub.columns) == {*spec.columns, label}
    assert "test" in spec.hub.splits
    if spec.hub.label_map is not None:
        assert set(spec.hub.label_map.values()) == set(range(len(spec.labels)))


@pytest.mark.parametrize("name", sorted(NOT_ON_THE_HUB))
def test_data_that_is_on_no_hub_says_where_it_is(name: str) -> None:
    spec = read(FOLDER / f"{name}.yaml")
    assert spec.hub is None and any("github.com/" in note and "hub" in note for note in spec.notes)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_local_layout_stays_in_its_folder_and_never_trains_on_test(path: Path) -> None:
    spec = read(path)
    assert spec.local is not None
    for layout in local.layouts(spec):
        for source in layout.sources:
            assert local.SOURCE.fullmatch(source)
        if layout.unsplit is None:
            # The STS tasks of SemEval have test pairs, and no others to be trained on.
            assert set(layout.splits) == {"train", "validation", "test"} or spec.kind == "sts"
            bare = {name: {split.source_of(s)[0] for s in sources} for name, sources in layout.splits.items()}
            assert not bare["test"] & (bare.get("train", set()) | bare.get("validation", set()))


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_a_corpus_has_texts_and_nothing_else(path: Path) -> None:
    spec = read(path)
    assert (spec.name, spec.kind, spec.columns, spec.labels) == (path.stem, "unlabelled", ("text",), ())
    assert spec.title and spec.reference and spec.licence
    assert spec.local is not None and set(spec.local.splits) == {"train"}
    assert all(local.SOURCE.fullmatch(source) for layout in local.layouts(spec) for source in layout.sources)


def test_the_corpus_of_simcse_is_one_file_of_a_repository() -> None:
    hub = read(FOLDER / "wiki1m.yaml").hub
    assert hub is not None and REPO_ID.fullmatch(hub.id) and hub.splits == {"train": "wiki1m_for_simcse.txt"}
