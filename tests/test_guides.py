"""Runs the files and commands that the guides show, with DIR, DATA and MODELS replaced by folders."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rbench import api
from rbench.cli import app
from rbench.config.registry import KINDS, Registry
from rbench.schema import AttackJob, MeasureJob, Record
from rbench.store.runs import RunStore
from tests.victims.made import write_classifier

pytestmark = pytest.mark.nightly
DOCS = Path(__file__).parents[1] / "docs"
GUIDES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (*sorted(DOCS.glob("guide-*.md")), DOCS / "noise.md", DOCS / "edits.md")
}
TICKETS = {"calm": ("Where is my order?", "My order is here, thank you."), "angry": ("Never again!", "Bad, bad order!")}


def files(guide: str) -> dict[str, str]:
    """The blocks of a guide by the path in their first line."""
    found = re.findall(r"```\w*\n# ((?:DIR|MODELS)/\S+)\n(.*?)```", GUIDES[guide], re.DOTALL)
    return dict(found)


def commands(guide: str) -> list[list[str]]:
    """The words of all command lines of a guide."""
    blocks = re.findall(r"```bash\n(.*?)```", GUIDES[guide], re.DOTALL)
    return [shlex.split(line.split("#")[0]) for block in blocks for line in block.splitlines()]


def rbench(words: list[str]) -> Result:
    assert words[0] == "rbench"
    return CliRunner().invoke(app, words[1:])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in with all files of all guides, and the data of the guide's task."""
    for guide in GUIDES:
        for name, text in files(guide).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
    for i, split in enumerate(("train", "validation", "test")):
        rows = [
            {"text": f"{text} Ticket {10 * i + n} of {split}", "label": label}
            for n in range(4)
            for label, texts in TICKETS.items()
            for text in texts
        ]
        write(tmp_path / "DATA" / "tickets" / f"{split}.jsonl", rows)
    (line,) = re.findall(r"DATA/tickets-edited/test\.jsonl\s+(\{.*\})", GUIDES["guide-contrast-sets.md"])
    write(tmp_path / "DATA" / "tickets-edited" / "test.jsonl", [json.loads(line)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path


def write(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def records(run: Path) -> list[Record]:
    store = RunStore(run)
    found = [store.record(job) for job in store.plan().jobs]
    assert None not in found
    return [record for record in found if record is not None]


def test_a_folder_adds_one_thing_of_each_kind_and_a_suite_uses_them_all(place: Path) -> None:
    plan, run = commands("guide-write-a-suite.md")
    planned = rbench(plan)
    assert planned.exit_code == 0, planned.output
    run += ["--backend", "torch", "--workers", "1"]
    result = rbench(run)
    assert result.exit_code == 0, result.output
    jobs = {"/".join((record.job.stage, *record.job.parts)): record for record in records(place / "RUN")}
    assert set(jobs) == {
        "pretrain/au-mini",
        "finetune/au-mini/tickets/centroids",
        "measure/au-mini/tickets/centroids/tickets-edited",
        "measure/au-mini/tickets/centroids/test_accuracy",
        "measure/au-mini/tickets/neighbours",
        "attack/au-mini/tickets/centroids/synonyms",
    }
    assert all(record.status == "complete" for record in jobs.values())
    attacked = jobs["attack/au-mini/tickets/centroids/synonyms"]
    assert attacked.counts["errored"] == 0 and isinstance(attacked.job.spec, AttackJob)
    assert attacked.job.spec.resources.name == "ours"
    built = jobs["measure/au-mini/tickets/neighbours"]
    assert isinstance(built.job.spec, MeasureJob) and len(RunStore(place / "RUN").outcomes(built.job)) == 5
    drawn = {path.name: path.read_bytes() for path in (place / "RUN" / "figures").iterdir()}
    assert set(drawn) == {"spent.pdf", "spent.svg", "spent.png"}
    again = rbench(run)
    assert again.exit_code == 0 and again.stdout == result.stdout, "nothing is left to do"
    for words in commands("guide-add-a-figure.md"):
        said = rbench(words)
        assert said.exit_code == 0, said.output
    assert (place / "queries.png").read_bytes() == drawn["spent.png"]
    assert (place / "RUN" / "figures" / "spent-task-tickets.svg").read_bytes() == drawn["spent.svg"]
    shown = api.figure(place / "RUN", "spent", {"task": "tickets"}, include=[place / "DIR"])
    (points,) = (line for line in shown.axes[0].lines if line.get_marker() == "o")
    outcomes = RunStore(place / "RUN").outcomes(attacked.job)
    assert [*points.get_ydata()] == [one.num_queries for one in outcomes if one.status in ("succeeded", "failed")]


def test_every_kind_is_in_that_folder(place: Path) -> None:
    registry = Registry([place / "DIR"])
    for kind in KINDS:
        own = [name for name in registry.names(kind) if registry.origin(kind, name).startswith("--include")]
        assert own, f"no guide shows how to add a {KINDS[kind].one}"
        listed = rbench(["rbench", "list", kind, "--include", "DIR"])
        assert listed.exit_code == 0
        lines = {line.split()[0]: line for line in listed.stdout.splitlines() if line}
        assert all(lines[name].rstrip().endswith("--include DIR") for name in own)
        assert not any("cannot be read" in lines[name] for name in own)


@pytest.mark.parametrize(
    ("file", "job"),
    [
        ("objectives/align-uniform.py", "pretrain/"),
        ("finetune/centroids.py", "finetune/"),
        ("measures/neighbours.py", "measure/au-mini/tickets/neighbours/"),
        ("attacks/synonyms.py", "attack/"),
    ],
)
def test_editing_a_module_makes_its_jobs_anew(file: str, job: str, place: Path) -> None:
    def keys() -> dict[str, str]:
        options = api.Options(include=(place / "DIR",), data=(place / "DATA",), models=(place / "MODELS",))
        return {job.name: job.key for job in api.plan("ours", options).jobs}

    before = keys()
    path = place / "DIR" / file
    path.write_text(path.read_text() + "\n# edited\n")
    changed = {name for name, key in keys().items() if key != before[name]}
    assert {name for name in before if name.startswith(job)} <= changed
    if not job.startswith(("pretrain", "finetune")):
        assert all(name.startswith(job) for name in changed)


def test_the_commands_on_objectives(place: Path) -> None:
    """With an encoder that comes with rbench: as printed, they train nothing else first."""
    (train,) = commands("guide-add-an-objective.md")
    result = rbench([*train, "--device", "cpu"])
    assert result.exit_code == 0, result.output
    assert "align-uniform-mini-bert-packaged-mini-corpus: loss" in result.stdout
    listed = rbench(["rbench", "list", "objectives", "--include", "DIR"])
    (line,) = (line for line in listed.stdout.splitlines() if line.startswith("align-uniform"))
    assert "Alignment and uniformity" in line and "weight=1.0" in line and line.rstrip().endswith("--include DIR")


def test_the_python_on_measures_of_trainings(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, run = commands("guide-write-a-suite.md")
    assert rbench([*run, "--only", "/neighbours/"]).exit_code == 0
    (code,) = re.findall(r"```python\n(from pathlib.*?)```", GUIDES["guide-add-a-measure.md"], re.DOTALL)
    exec(code, {})
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_the_python_on_using_rbench_from_python(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDES["guide-use-from-python.md"], re.DOTALL)
    assert len(blocks) == 4
    said = []
    for code in blocks:
        exec(code, {})
        said.append(capsys.readouterr().out)
    assert "[[disaster]] -> [[calamity]]" in said[0] and "| predict " in said[0]
    assert "Attack success rate" in said[1] and "tabular" in said[1] and records(place / "RUN")
    assert said[2].startswith("tensor([[") and (place / "log.csv").read_text().startswith('"id","encoder"')
    assert re.fullmatch(r"\(1, \d+\)\n", said[3])


def test_a_classifier_that_ships_is_measured_and_gated(place: Path) -> None:
    write_classifier(place / "shipped")
    lines = commands("guide-measure-my-classifier.md")
    assert len(lines) < 10 and [line[1] for line in lines] == ["run", "baseline", "check", "attack"]
    for words in lines:
        how = ["--backend", "torch", "--workers", "1"] if words[1] in ("attack", "run") else []
        result = rbench([*words, *how])
        # The classifier made for this test has random weights, so that no check can judge it.
        assert result.exit_code == (4 if words[1] == "check" else 0), (words, result.output)
        assert ("flagged near chance" in result.output) is (words[1] in ("baseline", "check"))
    assert {"/".join((record.job.stage, *record.job.parts)) for record in records(place / "shipped-run")} == {
        "open/release/mini-sentiment/as-is",
        "measure/release/mini-sentiment/as-is/test_accuracy",
        "attack/release/mini-sentiment/as-is/pwws",
    }
    mapped = ["rbench", "attack", "-c", "mapped", "--include", "DIR", *lines[-1][4:], "--backend", "torch"]
    assert rbench(mapped).exit_code == 0


def test_every_page_that_a_page_names_is_there() -> None:
    for path in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:\s]+)\)", path.read_text(encoding="utf-8")):
            assert (DOCS / target).exists(), f"{path.name}: {target}"


@pytest.mark.nightly
def test_the_guide_on_one_model_prints_cards(place: Path) -> None:
    alone, beside, programs = commands("guide-evaluate-one-model.md")
    quick = ["--finetune", "probe", "--n", "12", "--backend", "torch", "--workers", "1"]
    both = rbench([*beside, *quick])
    assert both.exit_code == 0 and "| simcse-mini-packaged is |" in both.stdout, both.output
    assert "| Clean accuracy |" in rbench([*alone, *quick]).stdout
    card = json.loads(rbench([*programs, *quick]).stdout)
    assert len(card["numbers"]) == 12 and not any(one["missing"] for one in card["numbers"])
