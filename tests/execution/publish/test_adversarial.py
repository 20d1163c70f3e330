"""Adversarial sets of outcomes made by hand: their columns, their card, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rbench.errors import PlanError, ResourceError
from rbench.execution.publish.adversarial import Made, write
from rbench.schema import (
    AttackJob,
    AttackSpec,
    Choice,
    EncoderSpec,
    FinetuneJob,
    HubData,
    Job,
    Outcome,
    Provenance,
    Record,
    ResourceSet,
    Source,
    TaskSpec,
    Training,
)
from rbench.tasks.adversarial import DATA, open_set

NLI = TaskSpec(
    name="nli",
    kind="nli",
    title="Pairs | of <texts>",
    columns=("premise", "hypothesis"),
    labels=("yes", "no"),
    licence="CC BY-SA 4.0",
    hub=HubData(
        id="someone/nli",
        revision="0" * 40,
        splits={"test": "test"},
        columns={"premise": "a", "hypothesis": "b", "label": "c"},
    ),
    notes=("A note.",),
)
STS = TaskSpec(name="sts", kind="sts", columns=("first", "second"), licence="a licence of its own")


def outcome(i: int, status: str, **more: Any) -> Outcome:
    given = {"label": i % 2, "original_prediction": i % 2, "perturbed_prediction": 1 - i % 2}
    scored = {"gold": 2.5, "original_score": 2.0, "perturbed_score": 4.5}
    texts = {"original": ("a b", f"c {i}"), "perturbed": ("a b", f"d {i}") if status != "skipped" else None}
    own = scored if "gold" in more else given
    return Outcome.model_validate(
        {"example_id": f"test:{i}", "status": status, **texts, **own, "num_queries": 7, "num_words": 4, **more}
    )


def made(outcomes: list[Outcome], task: TaskSpec = NLI, **more: Any) -> Made:
    encoder, clean = EncoderSpec(name="toy", base="toy"), Choice(name="clean")
    tuned = FinetuneJob(encoder=encoder, strategy=clean, task=task, data_fingerprint="d", training=Training())
    victim = Job.make(tuned, ("toy", task.name, "clean"), {}, 3)
    spec = AttackJob(
        encoder="toy",
        strategy=clean,
        task=task,
        data_fingerprint="rows",
        attack=AttackSpec(name="swap", recipe="Swap", needs=("masked_lm",), max_words=5),
        resources=ResourceSet(name="here", masked_lm=Source(kind="hub", name="/home/me/models/lm")),
        resource_fingerprints={"masked_lm": "f" * 64},
        num_examples=len(outcomes),
    )
    job = Job.make(spec, ("toy", task.name, "clean", "swap"), {"victim": victim.key}, 3)
    record = Record(job=job, status="complete", provenance=Provenance(rbench="0", weights_hash="w" * 64))
    return Made(job, record, victim, outcomes, **more)


SOME = [outcome(0, "succeeded"), outcome(1, "failed"), outcome(2, "skipped"), outcome(3, "errored", original=None)]


def test_a_set_and_its_card(tmp_path: Path) -> None:
    about = write(made(SOME), tmp_path / "set")
    assert about.counts == {"rows": 3, "total": 4, "succeeded": 1, "failed": 1, "skipped": 1, "errored": 1}
    rows = open_set(tmp_path / "set", NLI).rows
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

    outcomes = [outcome(0, "succeeded", gold=1.5), outcome(1, "failed", gold=4.0)]
    write(made(outcomes, STS), tmp_path / "set")
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
    with pytest.raises(PlanError, match="is a file"):
        write(made(SOME), tmp_path / "file")
    clash = NLI.model_copy(update={"columns": ("premise", "status")})
    with pytest.raises(PlanError, match="has a column `status`"):
        write(made(SOME, clash), tmp_path / "set")
    with pytest.raises(PlanError, match="no example is a row with --only successes"):
        write(made(SOME[1:], only="successes"), tmp_path / "set")
    with pytest.raises(ResourceError, match="has no texts"):
        write(made([one.without_texts() for one in SOME]), tmp_path / "set")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_set_whose_rows_were_changed_is_refused(tmp_path: Path) -> None:
    write(made(SOME), tmp_path / "one")
    write(made(SOME[:2]), tmp_path / "other")
    (tmp_path / "other" / DATA).replace(tmp_path / "one" / DATA)
    with pytest.raises(ResourceError, match="its rows are not those that were written"):
        open_set(tmp_path / "one", NLI)
    (tmp_path / "one" / DATA).write_bytes(b"no parquet")
    with pytest.raises(ResourceError, match="cannot be read"):
        open_set(tmp_path / "one", NLI)
