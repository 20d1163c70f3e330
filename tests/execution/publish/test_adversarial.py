"""Adversarial sets of outcomes made by hand: their columns, their card, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rbench.errors import PlanError, ResourceError
from rbench.execution.publish.adversarial import write_set
from rbench.schema import (
    TaskSpec,
)
from rbench.tasks.adversarial import DATA, open_set
from tests.execution.publish.attacked_sources import NLI_TASK, OUTCOMES, make_outcome, make_source

STS = TaskSpec(name="sts", kind="sts", columns=("first", "second"), licence="a licence of its own")


def test_a_set_and_its_card(tmp_path: Path) -> None:
    about = write_set(make_source(OUTCOMES), tmp_path / "set")
    assert about.counts == {"rows": 3, "total": 4, "succeeded": 1, "failed": 1, "skipped": 1, "errored": 1}
    rows = open_set(tmp_path / "set", NLI_TASK).rows
    assert [row.texts for row in rows] == [("a b", "d 0"), ("a b", "c 1"), ("a b", "c 2")], "errored ones are no rows"
    assert [row.original[1] for row in rows] == ["c 0", "c 1", "c 2"] and [row.label for row in rows] == [0, 1, 0]
    _, front, card = (tmp_path / "set/README.md").read_text(encoding="utf-8").split("---\n", 2)
    said = yaml.safe_load(front)
    assert (said["license"], said["language"], said["source_datasets"]) == ("cc-by-sa-4.0", "en", ["someone/nli"])
    assert "Pairs \\| of &lt;texts>" in card and "- A note." in card
    for fact in ("f" * 64, "w" * 64, "seed 3", "CC BY-SA 4.0", "TextAttack's recipe Swap; 5 words at most", "hub lm,"):
        assert fact in card
    assert "/home/me" not in card


def test_a_set_of_pairs_has_gold_scores_and_the_victims_scores(tmp_path: Path) -> None:
    from pyarrow import parquet

    outcomes = [make_outcome(0, "succeeded", gold=1.5), make_outcome(1, "failed", gold=4.0)]
    write_set(make_source(outcomes, STS), tmp_path / "set")
    rows = parquet.read_table(tmp_path / "set" / DATA).to_pylist()
    assert [(row["score"], row["original_prediction"], row["perturbed_prediction"]) for row in rows] == [
        (1.5, 2.0, 4.5),
        (4.0, 2.0, 4.5),
    ]
    assert "label" not in rows[0] and [row.label for row in open_set(tmp_path / "set", STS).rows] == [1.5, 4.0]
    front = yaml.safe_load((tmp_path / "set/README.md").read_text(encoding="utf-8").split("---\n")[1])
    assert (front["license"], front["license_name"]) == ("other", "a licence of its own")
    assert front["task_categories"] == ["sentence-similarity"]


def test_what_cannot_be_written_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlanError):
        write_set(make_source(OUTCOMES), tmp_path / "file")
    with pytest.raises(PlanError):
        write_set(make_source(OUTCOMES[1:], only="successes"), tmp_path / "set")
    with pytest.raises(ResourceError):
        write_set(make_source([one.without_texts() for one in OUTCOMES]), tmp_path / "set")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_set_whose_rows_were_changed_is_refused(tmp_path: Path) -> None:
    write_set(make_source(OUTCOMES), tmp_path / "one")
    write_set(make_source(OUTCOMES[:2]), tmp_path / "other")
    (tmp_path / "other" / DATA).replace(tmp_path / "one" / DATA)
    with pytest.raises(ResourceError):
        open_set(tmp_path / "one", NLI_TASK)
    (tmp_path / "one" / DATA).write_bytes(b"no parquet")
    with pytest.raises(ResourceError):
        open_set(tmp_path / "one", NLI_TASK)
