"""Tests that claims on contrast sets and adversarial sets are judged bundle by bundle, against their files."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy.stats import binomtest, t

from rbench import api
from rbench.errors import StoreError
from rbench.measures.contrast import collect_contrasts
from rbench.schema import Prediction
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.verdicts.claims import ComparisonVerdict
from tests import reference

FINETUNED = ("freelb", "clean")
HIGHER: Any = {"higher": "cline-minilm-mlm", "than": "minilm-mlm", "where": {"task": "imdb"}}
ADVERSARIAL, CONTRAST = "cline-table5-local", "cline-table4-local"


def judged(run: Path | str, tmp_path: Path, **keys: Any) -> ComparisonVerdict:
    file = tmp_path / "claims.yaml"
    file.write_text(yaml.safe_dump({"claims": [{"id": "c", **keys}]}))
    ((one,),) = (found.judged for found in api.claims(run if isinstance(run, Path) else reference.run(run), file))
    return one


def right(run: str, *named: str) -> dict[str, dict[str, bool]]:
    """Whether the original and the last edit of each bundle of a job are classified correctly."""
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    (job,) = [
        job for job in reference.plan(run).jobs if all(part in job.name.split("/") for part in ("measure", *named))
    ]
    for line in (RunStore(reference.run(run)).content(job, "predictions.jsonl") or b"").splitlines():
        row = json.loads(line)
        found[row["bundle"]]["original" if row["original"] else "edit"] = row["label"] == row["prediction"]
    return found


def test_accuracy_on_an_adversarial_set_is_judged_by_mcnemars_test(tmp_path: Path) -> None:
    one = judged(
        ADVERSARIAL,
        tmp_path,
        metric="adversarial",
        higher={"finetune": "freelb"},
        than={"finetune": "clean"},
        where={"encoder": "minilm-mlm", "task": "mr"},
    )
    victims = [right(ADVERSARIAL, "minilm-mlm", "mr", name) for name in FINETUNED]
    mine, theirs = ([row.get("edit", row["original"]) for row in rows.values()] for rows in victims)
    alone = [sum(a and not b for a, b in zip(*pair, strict=True)) for pair in ((mine, theirs), (theirs, mine))]
    assert list(victims[0]) == list(victims[1]) and len(mine) == 100 and sum(alone) > 5
    d = one.difference
    assert d is not None and not one.found.unpaired
    assert (d.n, d.only_one, d.only_other) == (100, *alone)
    assert d.value == pytest.approx((sum(mine) - sum(theirs)) / 100)
    assert d.p == pytest.approx(binomtest(alone[0], sum(alone)).pvalue)


def test_a_check_judges_accuracy_on_an_adversarial_set(tmp_path: Path) -> None:
    run, out = reference.run(ADVERSARIAL), tmp_path / "baseline.json"
    api.write_baseline([run], out, metric=["adversarial"])
    found = api.check(run, out, metric=["adversarial"])
    rows = {row.key.finetune: row for row in found.rows if row.key[:2] == ("minilm-mlm", "mr")}
    for name in FINETUNED:
        shares = [row.get("edit", row["original"]) for row in right(ADVERSARIAL, "minilm-mlm", "mr", name).values()]
        row = rows[name]
        assert row.before == row.after == pytest.approx(sum(shares) / len(shares)) and row.verdict == "passed"
        assert row.judged is not None and (row.judged.n, row.judged.rise) == (len(shares), 0)
    with pytest.raises(StoreError):
        api.write_baseline([run], out, metric=["accuracy"])


@pytest.mark.parametrize("metric", ["ori", "rev", "con"])
def test_contrast_sets_are_judged_bundle_by_bundle_with_seeds_as_a_level(metric: str, tmp_path: Path) -> None:
    found = judged(CONTRAST, tmp_path, metric=metric, **HIGHER)
    counted = {
        "ori": lambda row: row["original"],
        "rev": lambda row: row["edit"],
        "con": lambda row: row["original"] and row["edit"],
    }[metric]
    differences = []
    for seed in range(3):
        cline, base = (
            right(CONTRAST, name, "imdb", "clean", "contrast_imdb", f"seed{seed}")
            for name in ("cline-minilm-mlm", "minilm-mlm")
        )
        differences.append({bundle: counted(cline[bundle]) - counted(base[bundle]) for bundle in base})
    means = [sum(own.values()) / len(own) for own in differences]
    mean = sum(means) / 3
    # Between seeds, and what texts add that all seeds share.
    of_seeds = sum((one - mean) ** 2 for one in means) / 2 / 3
    rest = [{bundle: value - own for bundle, value in one.items()} for one, own in zip(differences, means, strict=True)]
    shared = (
        sum(rest[i][bundle] * rest[j][bundle] for i in range(3) for j in range(3) if i != j for bundle in rest[0])
        / (3 * 488) ** 2
    )
    error = (of_seeds + max(shared, 0) * 3 / 2) ** 0.5
    d = found.difference
    assert d is not None and not found.found.unpaired
    assert (d.n, d.seeds, d.value) == (1464, 3, pytest.approx(mean))
    # Student's t with the degrees of freedom of the seeds alone; `score.nested_intervals` gives the texts their own, so
    # its interval is a little narrower where texts matter and wider where seeds agree
    # (tests/score/test_nested_intervals.py).
    assert d.p == pytest.approx(2 * t.sf(abs(mean) / error, 2), rel=0.15)
    assert d.low is not None and d.high is not None
    assert d.low < mean < d.high and (d.low <= 0 <= d.high) == (d.p >= 0.05)
    assert d.high - d.low == pytest.approx(2 * t.ppf(0.975, 2) * error, rel=0.25)


def test_a_job_whose_predictions_are_damaged_is_not_done(tmp_path: Path) -> None:
    run = reference.unpacked(CONTRAST, tmp_path / "run")
    store = RunStore(run)
    job = next(job for job in reference.plan(CONTRAST).jobs if job.name.startswith("measure/minilm-mlm/imdb/clean/"))
    file = store.folder(job) / "predictions.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[1:]), encoding="utf-8")
    found = judged(run, tmp_path, metric="con", **HIGHER)
    assert found.verdict == "undecided" and "is not done (2 of 3 jobs)" in found.why


def test_a_bundle_without_its_original_is_an_error_that_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    results = Results.of(RunStore(reference.run(CONTRAST)))
    cell = next(iter(collect_contrasts(results).cells.values()))
    edit = Prediction(bundle="b", example_id="e", original=False, label=0, prediction=0)
    monkeypatch.setattr(RunStore, "predictions", lambda store, job: [edit])
    with pytest.raises(StoreError) as caught:
        cell.values(cell.runs[0], "con")
    assert str(results.store.folder(cell.runs[0].job)) in str(caught.value)
