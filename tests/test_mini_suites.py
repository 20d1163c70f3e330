"""Runs the mini profiles of suites whose tables and figures stand on measures and sets: from their files to figures.

The profiles themselves train encoders for minutes. Here packaged encoders stand in for those, victims are fine-tuned on
few texts, and few texts are attacked. All the rest is as in the files: strategies, attacks, measures, tables, figures.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rbench import api
from rbench.store.runs import RunStore

PACKAGED = "[mini-bert-packaged, simcse-mini-packaged]"
QUICK = (
    "num_examples=4",
    "resources={set: mini, masked_lm: mini-bert-packaged}",
    "training={learning_rate: 1.5e-3, epochs: 1, max_train: 200, max_validation: 60}",
)
ADVERSARIAL = "finetune=[clean, {adversarial: {clean_epochs: 1, epochs: 1, candidates: 5}}]"
NEIGHBOURS = "finetune=[clean, {adversarial: {source: neighbours, clean_epochs: 1, epochs: 1, candidates: 5}}]"
# Adversarial fine-tuning attacks its training texts, which takes time.
FEWER = "training={learning_rate: 1.5e-3, max_train: 40, max_validation: 20}"
SUITES: dict[str, tuple[str, ...]] = {
    "robustsentembed-table2": (f"encoders={PACKAGED}",),
    "robustsentembed-table3": (),
    "vadvcse-table1": ("encoders=[mini-static]",),
    "sts": ("encoders=[mini-static]",),
    # The figure `curves` shows trainings, and packaged encoders are not trained.
    "robustsentembed-figure2": (f"encoders={PACKAGED}", "figures=[queries, {queries: {panels: task}}]"),
    "cline-table5": (
        f"encoders={PACKAGED}",
        "evaluate=[{adversarial: {victim: robustsentembed-mini-packaged, attack: textfooler}}]",
    ),
    "cline-table2": (
        f"encoders={PACKAGED}",
        "evaluate=[contrast, {adversarial: {victim: robustsentembed-mini-packaged, attack: textfooler}}]",
    ),
    "adcl-table3": (f"encoders={PACKAGED}",),
    "adcl-table4": (
        f"encoders={PACKAGED}",
        "evaluate=[{space: {fooled: mini-bert-packaged}}, space, data]",
        "attacks=[textfooler]",
        ADVERSARIAL,
        FEWER,
        "num_examples=12",  # of which some must fall: the figure needs texts
    ),
    # The figure `dose` shows trainings, too.
    "dose-response": (f"encoders={PACKAGED}", "figures=[]", "claims=[]"),
    "robustness-search": (f"encoders={PACKAGED}",),
    "robustness-report": (f"encoders={PACKAGED}", "claims=[]", "train_seeds=[]", "attacks=[textbugger]"),
    "geometry-finetuning": ("encoders=[mini-bert-packaged]", NEIGHBOURS, FEWER),
    "adcl-gated": (f"encoders={PACKAGED}", "finetune=[clean]", FEWER, "claims=[]"),
    "robustsentembed-table4": ("encoders=[mini-bert-packaged]",),
    "vadvcse-table2": ("encoders=[mini-static]",),
    "vadvcse-table4": ("encoders=[mini-static]",),
    "vadvcse-table5": ("encoders=[mini-static]",),
    "robustsentembed-figure3": ("encoders=[mini-static, simcse-mini-packaged]",),
    "cline-table7": ("encoders=[mini-bert-packaged]",),
    "adcl-figure3": (
        f"encoders={PACKAGED}",
        "evaluate=[{space: {fooled: mini-bert-packaged}}]",
        ADVERSARIAL,
        FEWER,
        "num_examples=12",
    ),
    "noise": ("encoders=[mini-bert-packaged]", "claims=[]"),
    "strength": (),
    "two-sided": ("num_examples=12",),
    "vadvcse-table3": ("encoders=[mini-bert-packaged]", FEWER),
}


ALIKE = (
    ("robustsentembed-table2", "robustsentembed-figure2"),
    ("adcl-table4", "adcl-figure3"),
    ("cline-table5", "cline-table2"),
    ("adcl-table3",),
    ("robustsentembed-table3", "vadvcse-table1", "sts"),
    ("dose-response", "robustness-search", "robustness-report"),
    ("geometry-finetuning", "adcl-gated"),
    ("vadvcse-table3",),
    ("noise",),
    ("strength",),
    ("two-sided",),
    ("robustsentembed-table4", "vadvcse-table2", "vadvcse-table4", "vadvcse-table5"),
    ("robustsentembed-figure3", "cline-table7"),
)
"""Suites with the same victims, which one process fine-tunes once, and those of measures of encoders."""
EVERYDAY = ("robustsentembed-table3", "vadvcse-table3")
"""What begins the groups that run on every push: they have similarity, sets of pairs and attacks. The others run
nightly; on every push their files are read (tests/config), and a small suite has adversarial training, spaces and
transfer (tests/plan/test_strategy_encoders.py)."""


@pytest.mark.parametrize(
    "suites",
    [pytest.param(one, marks=() if one[0] in EVERYDAY else pytest.mark.nightly, id="-and-".join(one)) for one in ALIKE],
)
def test_they_run_from_their_files_to_their_tables_and_figures(suites: tuple[str, ...], tmp_path: Path) -> None:
    for suite in suites:
        check(suite, tmp_path / suite)


def test_every_suite_here_is_run() -> None:
    assert sorted(SUITES) == sorted(suite for suites in ALIKE for suite in suites)


def check(suite: str, run: Path) -> None:
    options = api.Options(profile="mini", overrides=(*QUICK, *SUITES[suite]), out=run, workers=1, backend="torch")
    result = api.run(suite, options)
    assert not result.failed and not result.skipped
    asked = RunStore(result.run).plan()
    assert asked is not None
    tables = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in result.run.glob("tables/*.json")}
    assert [*tables] and {*tables} == {table.label for table in asked.suite.tables}
    assert all(table["cells"] for table in tables.values())
    assert len(result.figures) == 3 * len(asked.suite.figures) and all(path.stat().st_size for path in result.figures)
    if suite == "adcl-table3":
        own = [cell for cell in tables["transfer"]["cells"] if cell["encoder"] == cell["judge"]]
        assert own and {cell["value"] for cell in own} <= {1.0, None}
