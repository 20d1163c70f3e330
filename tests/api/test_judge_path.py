"""The whole path with generated raters of known skill and bias: export, files sent back, import, numbers."""

from __future__ import annotations

import csv
import io
import random
from pathlib import Path

import pytest

from rbench import api
from rbench.errors import StoreError
from rbench.mini.oracle import oracle
from rbench.report.sheet import ANSWERS
from rbench.store.runs import RunStore
from rbench.tables import Results
from rbench.tables.aggregate import AttackCell, attack_grid
from tests.raters import LABELS, TASK, mini_run

SKILLS, BIASES = (0.7, 1.0), (0.5, 1.0)
"""Raters who do not know a label say `positive` far more often than not."""


def sent_back(sheet: Path, rng: random.Random, careless: float = 0.0) -> str:
    """Fill in the CSV file that a rater was sent, as a person of a skill and a bias of their own. What was shown is all
    that the rater sees: not the key."""
    skill, bias = rng.uniform(*SKILLS), rng.uniform(*BIASES)
    rows = []
    for row in csv.DictReader(io.StringIO(sheet.read_text(encoding="utf-8"))):
        texts = [row["first"].removeprefix("'"), *([row["second"].removeprefix("'")] if row["second"] else [])]
        true = [oracle(TASK, [text]) for text in texts]
        if rng.random() >= careless:
            guess = int(rng.random() < bias)
            said = true[0] if rng.random() < skill and true[0] is not None else guess
            answer = {"label": LABELS[int(said)], "natural": "yes"}
            row |= answer if len(texts) == 1 else {"meaning": "5" if true[0] == true[1] else "1"}
        rows.append([row.get(name) or "" for name in ANSWERS])
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([ANSWERS, *rows])
    return file.getvalue()


def walked(run: Path, folder: Path, seed: int, careless: float = 0.0, raters: int = 3) -> AttackCell:
    """Walk the path once, and return the cell with its numbers."""
    (run / "judged.json").unlink(missing_ok=True)
    made = api.judge_export(run, folder, per_cell=40, raters=raters, seed=seed)
    rng = random.Random(f"path/{seed}")
    (folder / "answers").mkdir()
    paths = []
    for path in (path for path in made.files if path.suffix == ".csv"):
        paths.append(folder / "answers" / path.name)
        paths[-1].write_text(sent_back(path, rng, careless), encoding="utf-8")
    found = api.judge_import(run, paths)
    assert found.raters == tuple(range(1, raters + 1)) and bool(found.missing) == bool(careless)
    (cell,) = attack_grid(Results.of(RunStore(run))).cells.values()
    return cell


def truths(run: Path) -> dict[str, float]:
    """What all such raters would say on average of all successes of the RUN, and of their originals."""
    (job,) = RunStore(run).plan().attacks  # type: ignore[union-attr]
    outcomes = list(RunStore(run).outcomes(job))
    fell = [one for one in outcomes if one.status == "succeeded"]
    skill, bias = sum(SKILLS) / 2, sum(BIASES) / 2
    guessed = sum(bias if one.label == 1 else 1 - bias for one in fell) / len(fell)
    kept = sum(one.oracle_label == one.label for one in fell) / len(fell)
    rate = len(fell) / len(outcomes)
    return {
        "valid_asr": rate * (skill * kept + (1 - skill) * guessed),
        "seen_in_original": skill + (1 - skill) * guessed,
    }


@pytest.mark.nightly
@pytest.mark.parametrize("careless", [0.0, 0.2])
def test_brackets_cover_what_biased_raters_would_say(tmp_path: Path, careless: float) -> None:
    run = mini_run(tmp_path / "run", n=150)
    true, held = truths(run), dict.fromkeys(("valid_asr", "seen_in_original"), 0)
    walks = 20  # 95% of them is 19; of 20 draws one more may miss. With 8 a single unlucky one decided
    for seed in range(walks):
        cell = walked(run, tmp_path / f"sheet{seed}", seed, careless)
        for name in held:
            score = cell.score(name)
            assert score.low is not None and score.high is not None
            held[name] += score.low <= true[name] <= score.high
        lower, upper = cell.score("valid_asr_kept").value, cell.score("valid_asr").value
        assert lower is not None and upper is not None
        assert careless or lower <= upper, "a bracket"
    assert min(held.values()) >= walks - 2, held


def test_raters_who_always_say_one_label_are_seen_beside_the_originals(tmp_path: Path) -> None:
    """A bias that all raters share is in no interval. It shows in what they say of originals, which is half then."""
    run = mini_run(tmp_path / "run", n=150)
    made = api.judge_export(run, tmp_path / "sheet", per_cell=60, raters=3)
    paths = []
    for path in (path for path in made.files if path.suffix == ".csv"):
        text = sent_back(path, random.Random(0)).replace(f",{LABELS[0]},", f",{LABELS[1]},")
        paths.append(tmp_path / "sheet" / f"back-{path.stem}.csv")
        paths[-1].write_text(text, encoding="utf-8")
    api.judge_import(run, paths)
    (cell,) = attack_grid(Results.of(RunStore(run))).cells.values()
    seen = cell.score("seen_in_original")
    assert seen.value == pytest.approx(0.5, abs=0.12)


def test_a_file_with_a_formula_among_biased_answers_imports_nothing(tmp_path: Path) -> None:
    run = mini_run(tmp_path / "run", n=60)
    made = api.judge_export(run, tmp_path / "sheet", per_cell=20, raters=2)
    good, bad = (sent_back(path, random.Random(1)) for path in made.files if path.suffix == ".csv")
    paths = [tmp_path / "sheet" / "good.csv", tmp_path / "sheet" / "bad.csv"]
    paths[0].write_text(good)
    paths[1].write_text(bad.replace(f",{LABELS[1]},", ",=cmd(),", 1))
    with pytest.raises(StoreError):
        api.judge_import(run, paths)
    assert not (run / "judged.json").exists()
