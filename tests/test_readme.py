"""README and the pages that it leads to first: commands parse, one of them runs, and numbers are those of RUNs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from rbench import api
from rbench.api import call_options
from rbench.api.runs import build_table, prepare_for_people, results_of
from rbench.cli import app
from rbench.schema import TableSpec
from rbench.tables.table import Number
from rbench.verdicts.bold import read_table
from rbench.verdicts.claims import summarise_claims
from tests import reference

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = (
    README,
    *((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("real-data", "install", "add-your-own")),
)
BLOCKS = [block for page in PAGES for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL)]
LINES = [line.split(" #")[0].strip() for block in BLOCKS for line in block.splitlines()]
COMMANDS = [line.removeprefix("rbench ") for line in LINES if line.startswith("rbench ")]
ATTACKS = [line for line in COMMANDS if line.startswith("attack ")]


def parse(words: list[str]) -> None:
    """Parse a command line as the program does. Raises where a verb or an option is not there."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("rbench", words)
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_parses(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("DATA", "MODELS"):
        (tmp_path / name).mkdir()
    parse(shlex.split(line))


def test_the_first_attack_runs_in_an_empty_folder_with_an_empty_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    # What is added makes it quick, and changes nothing that a missing file could stop.
    quick = ["--set", "training={max_train: 16, max_validation: 8, epochs: 1}", "--backend", "torch", "--workers", "1"]
    result = CliRunner().invoke(app, [*shlex.split(ATTACKS[0]), *quick])
    assert result.exit_code == 0, result.output
    assert result.stdout.count("example ") == 5
    assert not {"--data", "--models"} & set(shlex.split(ATTACKS[0]))


def test_the_table_of_words_needed_is_that_of_its_committed_run() -> None:
    run = reference.run("leaderboard-mr")
    cells = json.loads(api.table(run, metric="words", fmt="json"))["cells"]
    accuracies = json.loads(api.table(run, metric="clean", fmt="json"))["cells"]
    accuracy = {cell["encoder"]: 100 * cell["value"] for cell in accuracies}
    titles = {
        "mpnet": "all-mpnet-base-v2",
        "minilm": "all-MiniLM-L6-v2",
        "minilm-l3[normalize=true]": "paraphrase-MiniLM-L3-v2",
        "minilm-random": "control: random weights",
        "minilm-mlm[normalize=true]": "control: a masked LM that has seen these reviews",
        "minilm-static[normalize=true]": "control: averaged word vectors of all-MiniLM-L6-v2",
    }
    for cell in cells:
        falls = [f"{100 * cell[f'falls_within_{words}']:.1f}" for words in (1, 2, 3, 5)]
        words = f"{cell['words_needed']:.2f}"
        if cell["encoder"] in ("mpnet", "minilm-mlm[normalize=true]", "minilm-static[normalize=true]"):
            words = f"**{words}**"  # as in the table of the RUN's page
        row = f"| {titles[cell['encoder']]} | {accuracy[cell['encoder']]:.1f} | {' | '.join(falls)} | {words} |"
        assert row in README
    text = " ".join(README.split())
    assert f"by {more_words('mr', 'mpnet')} words** here and by {more_words('sst2', 'mpnet')} in [SST-2]" in text
    assert f"more words than all-MiniLM-L6-v2 ({more_words('mr', MASKED)} and {more_words('sst2', MASKED)})" in text
    assert f"random weights need {more_words('sst2', 'minilm-random')[1:]} words fewer than all-MiniLM-L6-v2" in text
    assert f"it is all-MiniLM-L6-v2, by {more_words('sst2', 'minilm-l3[normalize=true]')[1:]} words" in text


MASKED = "minilm-mlm[normalize=true]"


def more_words(task: str, encoder: str) -> str:
    """By how many words more than minilm an encoder is fooled, on the texts that both get right."""
    run = reference.run(f"leaderboard-{task}")
    (cell,) = api.compare(run, between=("minilm", encoder), metric="words_needed").cells
    assert cell.difference.p is not None and cell.difference.p < 0.05
    return f"{cell.difference.value:.2f}"


def test_readme_is_a_page_that_is_read() -> None:
    """Two screens: what it is, the two commands, a line on one model, four tables, and where to go on."""
    first, second, *_ = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
    assert first.strip().endswith(".venv/bin/pip install . && .venv/bin/rbench run quickstart --processes 2")
    assert second.strip().endswith(".venv/bin/pip install tox && .venv/bin/tox")


def test_the_quickstarts_numbers_are_those_of_its_committed_run() -> None:
    """Of today's suite: a changed one has to be run again, packed into results/quickstart.zip, and quoted."""
    run = ROOT / "results" / "quickstart.zip"
    result = results_of(run)
    today, then = call_options.load_suite("quickstart", api.Options()).suite, result.plan.suite
    assert all(getattr(today, axis) == getattr(then, axis) for axis in ("encoders", "tasks", "attacks", "finetune"))
    assert (today.seeds, today.num_examples, today.training) == (then.seeds, then.num_examples, then.training)
    table = prepare_for_people(build_table(result, TableSpec(metric="asr")), result)
    values = [row[3] for row in table.rows]
    assert all(isinstance(one, Number) for one in values) and len(table.rows) <= 9
    shown = [f"**{one.shown(one.value)}**" if one.best else one.shown(one.value) for one in values]
    order = {"TextFooler": 0, "PWWS": 4, "TextBugger": 2, "any": 6}
    for name, row in order.items():
        (line,) = [line for line in README.splitlines() if line.startswith(f"| {name} ")]
        assert line.endswith(f"| {shown[row]} | {shown[row + 1]} |")
    assert f"In short: {read_table(table)}\n" in README
    claims = [line for line in README.splitlines() if line.startswith(("supported: ", "undecided: ", "contradicted: "))]
    assert len(claims) == len(today.claims)
    for line, said in zip(claims, summarise_claims(result), strict=False):
        start, _, end = line.partition(" ... ")
        assert said.startswith(start) and end.removesuffix(")") in said


def test_the_small_table_of_real_data_is_that_of_the_claims_on_its_run() -> None:
    """Each value, difference and p is one that the page of the RUN has among its claims or tables."""
    page = (reference.REFERENCE / "geometry-finetuning-mr.md").read_text(encoding="utf-8")
    part = README[README.index("## The same question on real data") : README.index("## How many words")]
    ours = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]
    (_, *clean), (_, *adversarial), (_, *difference) = ours[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    judged = [row for row in rows if len(row) == 9]

    def row_of(claim: str, cell: str = "") -> list[str]:
        start = next(i for i, row in enumerate(judged) if row[0] == claim)
        return next(row for row in judged[start:] if row[1].startswith(cell))

    asked = ["accuracy", "", "", "mean"]
    found = [row_of(f"adversarial-below-clean-{name}") if name else [] for name in asked]
    found[1:3] = [row_of("adversarial-below-clean", f"{name}[max_words=20]:") for name in ("textfooler", "pwws")]
    for i, (_, _, n, one, other, value, interval, p, verdict) in enumerate(found):
        assert (adversarial[i], clean[i]) == (one, other) and n in part
        assert difference[i] == f"{value} [{interval.replace(' to ', ', ')}]"
        assert (f"**{one}**" in part) == verdict.startswith("supported")
        assert not verdict.startswith("supported") or p in part


def test_what_readme_says_of_the_control_is_the_verdict_on_its_run() -> None:
    rows = reference.verdicts("geometry-finetuning-table8").splitlines()
    (row,) = [row for row in rows if row.startswith("| on-the-fly-below-random-on-the-fly-mean ")]
    difference, interval, p, verdict = (cell.strip() for cell in row.strip("| ").split("|")[-4:])
    low, high = (-float(end) for end in reversed(interval.split(" to ")))
    assert f"{-float(difference)} points more often in the mean (95% interval {low} to {high}, p {p})" in " ".join(
        README.split()
    )
    assert verdict == "supported, these methods"


def test_what_readme_says_of_speed_and_equality_is_in_the_results_of_the_benchmarks() -> None:
    equal = json.loads((ROOT / "benchmarks" / "results" / "equality.json").read_text(encoding="utf-8"))
    n, different = (sum(one[name] for one in equal["summary"].values()) for name in ("n", "different"))
    assert f"{n - different} of {n} outcomes" in README
    said = " ".join(README.split())
    for name in ("throughput", "throughput_wide_vectors"):
        text = (ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8")
        rows = [row for row in json.loads(text)["rows"] if "attack" in row]
        assert all(row["different"] == 0 for row in rows)
        ratios = [row["ratio"] for row in rows if row["task"] in ("mr", "snli")]
        ends = f"{min(ratios):.2g}", f"{max(ratios):.2g}"
        assert f"{ends[0]} to {ends[1]} times" in said, ends
