"""Tests every task file in the package."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import rbench.tasks
from rbench.config.files import RegistryFiles
from rbench.config.positions import Problems
from rbench.config.registry import Registry
from rbench.config.tasks import TaskLoader
from rbench.measures.sts import FIELD_SETS
from rbench.schema import TaskSpec
from rbench.system.hub import COMMIT, is_repo_id
from rbench.tasks import local, split

FOLDER = Path(rbench.tasks.__file__).parent
OURS = sorted(path for path in FOLDER.glob("*.yaml") if not path.stem.startswith(("mini-", "_")))


def read(path: Path) -> TaskSpec:
    return TaskSpec.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def loaded(path: Path) -> TaskSpec:
    """The task with the fragments that its file includes."""
    spec = TaskLoader(RegistryFiles(Registry(), problems := Problems())).load(path.stem, "here")
    problems.raise_any()
    assert spec is not None
    return spec


SPECS = {path: loaded(path) for path in OURS}
UNLABELLED = [path for path, spec in SPECS.items() if spec.kind == "unlabelled"]
CORPORA = [path for path in UNLABELLED if len(SPECS[path].columns) == 1]
RANKINGS = [path for path, spec in SPECS.items() if spec.kind == "ranking"]
FILES = [path for path in OURS if path not in UNLABELLED and path not in RANKINGS]
OF_PARTS = [path for path, spec in SPECS.items() if spec.parts]
"""Made of several sources, each with a place of its own."""
NOT_ON_THE_HUB = [path for path in FILES if path not in OF_PARTS and SPECS[path].hub is None]


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


ON_THE_HUB = [path for path in FILES if SPECS[path].hub is not None]


@pytest.mark.parametrize("path", ON_THE_HUB, ids=lambda path: path.stem)
def test_hub_data_is_pinned_and_complete(path: Path) -> None:
    spec = read(path)
    assert spec.hub is not None
    label = "score" if spec.kind == "sts" else "label"
    for source in spec.hub.sources:
        assert is_repo_id(source.id)
        assert COMMIT.fullmatch(source.revision) or any("main" in note for note in spec.notes)
        assert set(source.columns) == {*spec.columns, label}
        if source.label_map is not None:
            assert set(source.label_map.values()) == set(range(len(spec.labels)))
    assert "test" in on_the_hub(spec)


@pytest.mark.parametrize("path", OF_PARTS, ids=lambda path: path.stem)
def test_parts_are_pinned_stay_in_their_folder_and_never_train_on_test(path: Path) -> None:
    spec = read(path)
    for part in spec.parts:
        assert all(local.SOURCE_FORM.fullmatch(source) for source in part.local)
        assert "test" not in " ".join(part.local) or part.split == "test"
        if part.hub is not None:
            assert is_repo_id(part.hub.id) and COMMIT.fullmatch(part.hub.revision)
            assert set(part.hub.columns) == {*spec.columns, "label"}
            assert "test" not in part.hub.split or part.split == "test"


WITH_SIZES = [*ON_THE_HUB, *(path for path in CORPORA if SPECS[path].hub is not None)]


def on_the_hub(spec: TaskSpec) -> dict[str, str]:
    """The hub's split behind each split of a task."""
    assert spec.hub is not None
    return {part: name for source in spec.hub.sources for part, name in source.splits.items()}


@pytest.mark.parametrize("path", WITH_SIZES, ids=lambda path: path.stem)
def test_every_split_on_the_hub_states_its_published_size_or_a_note_says_that_none_was_found(path: Path) -> None:
    spec = read(path)
    assert set(spec.sizes) <= set(on_the_hub(spec))
    stated = set(spec.sizes) == set(on_the_hub(spec))
    assert stated or any("`sizes` does not state it" in note for note in spec.notes)


@pytest.mark.parametrize("path", WITH_SIZES, ids=lambda path: path.stem)
def test_sizes_of_a_divided_training_split_follow_the_rule_that_divides_it(path: Path) -> None:
    spec = read(path)
    if on_the_hub(spec).get("validation") == f"train{split.HOLDOUT_SUFFIX}" and "train" in spec.sizes:
        rows = spec.sizes["train"] + spec.sizes["validation"]
        assert spec.sizes["validation"] == min(int(split.HOLDOUT_SHARE * rows), split.MAX_HOLDOUT)


def test_sst2_attacks_the_labelled_test_sentences_and_trains_on_glue() -> None:
    spec = read(FOLDER / "sst2.yaml")
    assert spec.hub is not None
    assert {part: source.id for source in spec.hub.sources for part in source.splits} == {
        "train": "nyu-mll/glue",
        "validation": "nyu-mll/glue",
        "test": "SetFit/sst2",
    }
    assert spec.sizes["test"] == 1821


def test_sickr_has_the_pairs_that_the_papers_score() -> None:
    spec = read(FOLDER / "sickr.yaml")
    assert spec.sizes == {"train": 4500, "validation": 500, "test": FIELD_SETS["sickr"]}


@pytest.mark.parametrize("path", NOT_ON_THE_HUB, ids=lambda path: path.stem)
def test_data_that_is_on_no_hub_says_where_it_is(path: Path) -> None:
    assert any("github.com/" in note and "hub" in note for note in SPECS[path].notes)


@pytest.mark.parametrize("path", [path for path in FILES if path not in OF_PARTS], ids=lambda path: path.stem)
def test_local_layout_stays_in_its_folder_and_never_trains_on_test(path: Path) -> None:
    spec = read(path)
    assert spec.local is not None
    for layout in local.list_layouts(spec):
        for source in layout.sources:
            assert local.SOURCE_FORM.fullmatch(source)
        if layout.unsplit is None:
            # The STS tasks of SemEval have test pairs, and no others to be trained on.
            assert set(layout.splits) == {"train", "validation", "test"} or spec.kind == "sts"
            bare = {name: {split.strip_holdout(s)[0] for s in sources} for name, sources in layout.splits.items()}
            assert not bare["test"] & (bare.get("train", set()) | bare.get("validation", set()))


@pytest.mark.parametrize("path", RANKINGS, ids=lambda path: path.stem)
def test_a_ranking_says_where_its_documents_are(path: Path) -> None:
    spec = SPECS[path]
    assert spec.columns == ("query",)
    assert spec.title and spec.reference and spec.licence and spec.ranking is not None
    hub = spec.ranking.hub
    assert (hub is None) == path.stem.endswith("_ranking")  # those are made of a local file of pairs
    assert hub is None or (is_repo_id(hub.id) and COMMIT.fullmatch(hub.revision))


def test_rankings_whose_queries_are_documents_leave_out_each_querys_own() -> None:
    own = {path.stem for path in RANKINGS if (of := SPECS[path].ranking) is not None and of.without_own}
    assert own >= {"arguana", "quora", "nano_arguana", "nano_quora"}


@pytest.mark.parametrize("path", CORPORA, ids=lambda path: path.stem)
def test_a_corpus_has_texts_and_nothing_else(path: Path) -> None:
    spec = read(path)
    assert (spec.name, spec.kind, spec.columns, spec.labels) == (path.stem, "unlabelled", ("text",), ())
    assert spec.title and spec.licence and (spec.reference or spec.hub is None)
    assert spec.local is not None and set(spec.local.splits) == {"train"}
    assert all(local.SOURCE_FORM.fullmatch(source) for layout in local.list_layouts(spec) for source in layout.sources)


def test_the_triples_have_a_test_split_of_three_texts_a_row() -> None:
    spec = read(FOLDER / "meaning_triples.yaml")
    assert (spec.kind, spec.columns, spec.labels) == ("unlabelled", ("original", "kept", "changed"), ())
    assert spec.title and spec.licence and spec.hub is None
    assert spec.local is not None and set(spec.local.splits) == {"test"}
    assert {*UNLABELLED} - {*CORPORA} == {FOLDER / "meaning_triples.yaml"}


def test_the_corpus_of_simcse_is_one_file_of_a_repository() -> None:
    hub = read(FOLDER / "wiki1m.yaml").hub
    assert hub is not None and is_repo_id(hub.id) and hub.splits == {"train": "wiki1m_for_simcse.txt"}
