"""Tests what each verb passes to the API, what it prints, and its exit code."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

import rbench
from rbench import api, cli
from rbench.cli import console as show
from rbench.cli import main
from rbench.cli.verbs import FORMER_VERBS
from rbench.config.registry import KINDS, Registry, load_module
from rbench.errors import PlanError, RbenchError, ResourceError, StoreError, SuiteError
from rbench.schema import EncoderSpec, Job, Outcome, Record, TaskSpec
from rbench.system.progress import SilentProgress
from tests.cli.conftest import Api, Shell, attack_job, outcome
from tests.refusals import unknown
from tests.specs import of_sts

VERBS = [verb for verbs in cli.VERBS.values() for verb in verbs]
ANSI = "\x1b["


# ----------------------------------------------------------------------------------------------------------- help


def test_help_names_all_verbs_and_where_to_start(shell: Shell) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        result = shell(*arguments)
        assert all(re.search(rf"\b{verb} ", result.stdout) for verb in VERBS)
        assert "rbench run quickstart" in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(shell: Shell, verb: str) -> None:
    result = shell(verb, "--help")
    assert result.exit_code == 0
    assert re.search(rf"Examples?:\s+rbench\s+{verb}\b", result.stdout)
    assert ANSI not in result.stdout


def test_help_has_a_line_of_100_columns_for_each_verb() -> None:
    lines = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"}).invoke(cli.app, ["--help"]).stdout.splitlines()
    for verb in (verb for verbs in cli.VERBS.values() for verb in verbs):
        (own,) = (line for line in lines if line.startswith(f"│ {verb} "))
        assert own.rstrip(" │").endswith("."), "its summary is not wrapped"


@pytest.mark.parametrize("former", FORMER_VERBS)
def test_a_verb_of_an_earlier_version_is_an_error_that_names_what_does_it_now(former: str, shell: Shell) -> None:
    result = shell(*former.split(), "--anything")
    told = " ".join(result.stderr.replace("│", " ").split())
    assert result.exit_code == 2 and f"rbench {FORMER_VERBS[former]}" in told
    verb = FORMER_VERBS[former].split()[0]
    named = set(re.findall(r"--[a-z-]+", FORMER_VERBS[former].partition(", or ")[0]))
    words = FORMER_VERBS[former].split()[:2] if verb == "judge" else [verb]
    assert named <= set(re.findall(r"--[a-z-]+", shell(*words, "--help").stdout)), "there are such options"


def test_the_shell_completes_verbs_and_options() -> None:
    for words, expected in (("rbench ta", "table"), ("rbench table --with", "--with-paper")):
        given = {"_RBENCH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        completed = CliRunner(env=given).invoke(cli.app, prog_name="rbench").stdout.split()
        assert expected in completed
        assert all(one.startswith(words.split()[-1]) for one in completed)


@pytest.mark.parametrize("verb", ["", "run", "attack", "check", "table", "plan"])
def test_help_shows_no_value_beside_a_flag(verb: str, shell: Shell) -> None:
    lines = shell(*verb.split(), "--help").stdout.splitlines()
    assert any("--help" in line for line in lines)
    typers = ("--help", "--install-completion", "--show-completion")
    assert not [line for line in lines if "bool" in line.lower() and not any(option in line for option in typers)]


def test_a_command_imports_the_module_of_its_verb_alone_and_help_all() -> None:
    commands = get_command(cli.app).commands  # type: ignore[attr-defined]
    assert sorted(commands) == sorted(verb for verbs in cli.VERBS.values() for verb in verbs)
    for command, modules in (("verify", {"keeping_verbs"}), ("verfiy", set(cli.VERBS))):
        code = (
            f"import sys; sys.argv = ['rbench', '{command}', '--help']\n"
            "from rbench.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print(*(name for name in sys.modules if name.endswith('_verbs')), sep='\\n')"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert {f"rbench.cli.{module}" for module in modules} <= {*ended.stdout.splitlines()}
        assert sum(line.startswith("rbench.cli.") for line in ended.stdout.splitlines()) == len(modules)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['rbench', '--help']\n"
        "from rbench.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'transformers', 'textattack', 'datasets', 'pandas', 'numpy', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_version(shell: Shell) -> None:
    assert shell("--version").stdout == f"rbench {rbench.__version__}\n"


# ------------------------------------------------------------------------------------------------------------ run


def test_run_hands_over_every_option(shell: Shell, mock: Api, tmp_path: Path) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    result = shell(
        *("run", "quickstart", "--profile", "local", "--set", "seeds=[1, 2]", "--set", "num_examples=3"),
        *(
            *("--only", "pwws", "--only", "bae"),
            "--limit",
            "7",
            "--out",
            tmp_path / "out",
            "--data",
            tmp_path / "a",
            "--data",
            tmp_path / "b",
        ),
        *("--models", tmp_path / "a", "--include", tmp_path / "b", "--device", "cpu", "--fresh", "--quiet"),
        *("--workers", "3", "--backend", "onednn", "--max-seconds", "2.5", "--retry-timeouts"),
    )
    assert result.exit_code == 0, result.output
    (name, (suite, options), kwargs) = mock.calls[0]
    assert (name, suite) == ("run", "quickstart")
    assert options == api.Options(
        profile="local",
        overrides=("seeds=[1, 2]", "num_examples=3"),
        only=("pwws", "bae"),
        limit=7,
        out=tmp_path / "out",
        data=(tmp_path / "a", tmp_path / "b"),
        models=(tmp_path / "a",),
        include=(tmp_path / "b",),
        device="cpu",
        fresh=True,
        workers=3,
        backend="onednn",
        max_seconds=2.5,
        retry_timeouts=True,
    )
    assert isinstance(kwargs["progress"], SilentProgress)


def test_run_with_nothing_said_takes_the_defaults(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1)
    assert shell("run", "quickstart").exit_code == 0
    assert mock.options == api.Options(workers=None)  # as many as the machine is good for
    assert mock.calls[0][2]["progress"] is not None


def test_search_paths_come_from_the_environment_too(
    shell: Shell, mock: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=1)
    monkeypatch.setenv("RBENCH_DATA", f"/x{os.pathsep}{os.pathsep}/y")
    monkeypatch.setenv("RBENCH_MODELS", "")
    shell("run", "quickstart", "--data", tmp_path)
    assert mock.options.data == (tmp_path, Path("/x"), Path("/y"))
    assert mock.options.models == ()


def test_a_complete_run_prints_its_tables_and_nothing_else_on_stdout(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = api.RunResult(run=Path("results/runs/demo"), complete=6, tables=["| a |\n|---|\n", "| b |"])
    result = shell("run", "quickstart")
    assert result.exit_code == 0
    assert result.stdout == "| a |\n|---|\n\n| b |\n\n"
    assert "6 jobs complete; results are in results/runs/demo" in result.stderr


def test_a_run_with_failed_jobs_says_which_and_why_and_ends_with_1(shell: Shell, mock: Api, failed: Record) -> None:
    mock.answers["run"] = api.RunResult(run=Path("r"), complete=5, failed=[failed], skipped=[failed.job], tables=["t"])
    result = shell("run", "quickstart")
    assert result.exit_code == 1
    assert "failed: attack/minilm/mr/clean/pwws/seed1: ValueError: the head fell off" in result.stderr
    assert "not run, because it needs a job that failed: attack/minilm/mr/clean/pwws/seed1" in result.stderr
    assert "record.json" in result.stderr
    assert result.stdout == "t\n\n"


@pytest.mark.parametrize(
    ("error", "verb"), [(SuiteError, "run"), (PlanError, "plan"), (StoreError, "table"), (ResourceError, "status")]
)
def test_what_a_user_can_mend_is_one_message_and_ends_with_2(
    shell: Shell, mock: Api, error: type[Exception], verb: str
) -> None:
    said = "my.yaml:3:5: " + unknown("task", "mrr", "mr") + "?\nmy.yaml:4:1: [odd]"
    mock.answers["doctor" if verb == "status" else verb] = error(said)
    result = shell(verb, *(["x"] if verb != "status" else ["--environment"]))
    assert result.exit_code == 2
    assert result.stdout == ""
    _, after = result.stderr.split("\n", 1)  # below the first line, which says what is being done
    assert after == "error in my.yaml:3:5: " + unknown("task", "mrr", "mr") + "?\nmy.yaml:4:1: [odd]\n"


def test_ctrl_c_says_how_to_go_on_and_ends_with_130(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = KeyboardInterrupt()
    result = shell("run", "quickstart")
    assert result.exit_code == 130
    assert "Interrupted. Finished work is kept: run the same command again" in result.stderr
    mock.answers["plan"] = KeyboardInterrupt()
    assert shell("plan", "quickstart").exit_code == 130


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [pytest.param(2, 130, "Interrupted", marks=pytest.mark.nightly), (15, 143, "Terminated")],
)
def test_a_signal_ends_the_real_command(number: int, code: int, said: str) -> None:
    script = (
        "import signal, sys, time\n"
        # A shell starts background jobs with SIGINT ignored, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from rbench import api\n"
        "def run(*a, progress, **k):\n"
        "    progress.start('attack/x', 1, 1); time.sleep(60)\n"
        "api.run = run\n"
        "sys.argv = ['rbench', 'run', 'quickstart']\n"
        "from rbench.cli import main\n"
        "main()\n"
    )
    command = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert command.stderr is not None
    assert command.stderr.readline() == "Planning quickstart\n"
    assert command.stderr.readline() == "[1/1] attack/x: started\n"
    command.send_signal(number)
    out, err = command.communicate(timeout=30)
    assert (command.returncode, out) == (code, "")
    assert f"{said}. Finished work is kept: run the same command again" in err
    assert "Traceback" not in err


HANDLERS = """
import signal
from rbench.cli.verbs import Terminated, stoppable

signal.signal(signal.SIGTERM, signal.SIG_IGN)
with stoppable():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
signal.signal(signal.SIGTERM, signal.SIG_DFL)
try:
    with stoppable():
        signal.raise_signal(signal.SIGTERM)
        print("not raised at once")
except Terminated:
    print("raised")
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""


def test_a_program_that_handles_sigterm_itself_keeps_its_handler() -> None:
    """In a process of its own, which a mistake would end."""
    done = subprocess.run([sys.executable, "-c", HANDLERS], check=True, capture_output=True, text=True)
    assert done.stdout == "raised\n"


def test_what_others_still_do_is_said_and_a_limit_is_not_judged(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = api.RunResult(Path("r"), 1, elsewhere=[attack_job(0)], others=": process 7 on h has x")
    result = shell("run", "quickstart")
    assert result.exit_code == 5
    assert "1 job is not complete: process 7 on h has x. Nothing is left for this process." in result.stderr
    assert "rbench status r shows how far it is" in result.stderr
    result = shell("run", "quickstart", "--fail-if", "asr > 60")
    assert result.exit_code == 5 and "--fail-if was not judged" in result.stderr
    mock.answers["run"] = api.RunResult(Path("r"), 1, left=[attack_job(0)])
    assert shell("run", "quickstart").exit_code == 5
    mock.answers["run"] = api.RunResult(Path("r"), 1, elsewhere=[attack_job(0)], submitted=["1"])
    assert shell("run", "quickstart").exit_code == 0, "what is submitted need not be waited for"
    assert shell("run", "quickstart", "--fail-if", "asr > 60").exit_code == 5


def test_a_bug_keeps_its_traceback(shell: Shell, mock: Api) -> None:
    mock.answers["run"] = ZeroDivisionError("a bug")
    result = shell("run", "quickstart")
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize("arguments", [["run", "quickstart"], ["run", "quickstart", "--traceback"]])
def test_what_a_users_function_raises_is_told_with_its_line(
    shell: Shell, mock: Api, tmp_path: Path, arguments: list[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import json\n\ndef answer(*texts, **options):\n    return json.loads('{')\n")
    mock.answers["run"] = load_module(file).answer
    result = shell(*arguments)
    assert result.exit_code == 2 and f"error in {file}:4: json.decoder.JSONDecodeError: " in result.stderr
    assert ("Traceback" in result.stderr) == ("--traceback" in arguments)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENAMETOOLONG, errno.EACCES])
def test_what_the_system_refuses_is_one_message_with_the_file(shell: Shell, mock: Api, number: int) -> None:
    mock.answers["plan"] = OSError(number, os.strerror(number), "/some/file")
    result = shell("plan", "quickstart")
    assert (result.exit_code, result.stderr) == (
        2,
        f"Planning quickstart\nerror: /some/file: {os.strerror(number)}\n",
    )


COMMAND = [sys.executable, "-c", "import sys; from rbench.cli import main; main()"]


def test_recipes_that_cannot_be_run_are_listed_with_the_reason(shell: Shell) -> None:
    listed = shell("list", "attacks").stdout
    usable = listed.partition("work by class name too: ")[2].splitlines()[0].split(", ")
    reasons = dict(line.split(": ", 1) for line in listed.partition("These cannot be run here:\n")[2].splitlines())
    assert len(usable) == 10 and len(reasons) == 14 and not set(usable) & set(reasons)
    assert reasons["MorpheusTan2020"] == "it attacks translation, not classification"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["list", "tasks"], ["--version"]])
def test_output_that_cannot_be_written_is_one_message(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.stderr.splitlines()[-1] == "error: standard output cannot be written: No space left on device"
    assert len(ended.stderr.splitlines()) == 1 + (arguments[0] == "list"), "a verb says first what it does"
    assert ended.returncode == 2


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_messages_that_cannot_be_written_stop_nothing() -> None:
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run([*COMMAND, "plan", "quickstrt"], stdout=full, stderr=full).returncode == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--help"], "", marks=pytest.mark.nightly),
        (["list", "tasks"], "Listing names that suites and commands know\n"),
    ],
)
def test_a_reader_that_has_enough_ends_nothing_with_an_error(words: list[str], said: str) -> None:
    """As in `rbench --help | head -1`."""
    read, write = os.pipe()
    os.close(read)
    ended = subprocess.run([*COMMAND, *words], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, said)


def test_rbench_is_a_module_too() -> None:
    ended = subprocess.run([sys.executable, "-m", "rbench", "--version"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, f"rbench {rbench.__version__}\n")


def test_quiet_prints_the_tables_and_what_went_wrong(shell: Shell, mock: Api) -> None:
    done = api.RunResult(Path("r"), 1, tables=["| table |"], figures=[Path("f.pdf")], report=Path("r.html"))
    mock.answers["run"] = done
    result = shell("run", "quickstart", "-q")
    assert (result.stdout, result.stderr) == ("| table |\n\n", "")
    mock.answers["run"] = dataclasses.replace(done, left=[attack_job(0)])
    assert shell("run", "quickstart", "-q").stderr.startswith("1 job is left")


def test_where_results_are_is_said_also_when_the_tables_cannot_be_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(text: str) -> None:
        raise RbenchError("full")

    monkeypatch.setattr(show, "say", full)
    with pytest.raises(RbenchError):
        show.print_result(api.RunResult(Path("here"), 3, tables=["| table |"]))
    assert capsys.readouterr().err == "3 jobs complete; results are in here\n"


def test_main_ends_with_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, code in ((["plan", "quickstrt"], 2), (["list", "suites"], 0), (["nonsense"], 2), (["run"], 2)):
        monkeypatch.setattr(sys, "argv", ["rbench", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        assert (end.value.code or 0) == code
        assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument 'SUITE'"),
        (["run", "x", "--limit", "0"], "--limit"),
        (["run", "x", "--limit", "many"], "--limit"),
        (["run", "x", "--device", "tpu"], "'tpu' is not one of"),
        (["run", "x", "--data", "/no/such/folder"], "does not exist"),
        (["run", "x", "--sed", "seeds=1"], "No such option"),
        (["table", "x", "--format", "markdwon"], unknown("format", "markdwon", "markdown")),
        (["table", "x", "--layout", "papr"], unknown("layout", "papr", "paper")),
        (["list", "encoder"], unknown("kind", "encoder", "encoders")),
        (["list", "zzzz"], "figures, finetune, judges, measures, metrics, noise, objectives"),
        (["attack", "-t", "mr", "-a", "pwws"], "Missing option"),
        (["runn"], "No such command 'runn'"),
    ],
)
def test_a_wrong_command_line_is_told_and_ends_with_2(
    shell: Shell, mock: Api, arguments: list[str], message: str
) -> None:
    result = shell(*arguments)
    assert result.exit_code == 2
    assert message in re.sub(r"[\s│]+", " ", result.stderr)
    assert mock.calls == []


# ----------------------------------------------------------------------------------------------------------- plan


def test_plan_groups_seeds_and_sums_what_remains(shell: Shell, mock: Api, planned: api.Planned) -> None:
    mock.answers["plan"] = planned
    result = shell("plan", "demo", "--profile", "local")
    assert result.exit_code == 0
    assert mock.options.profile == "local"
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["finetune/minilm/mr/clean", "0-2", "1/3"] in lines
    assert ["attack/minilm/mr/clean/pwws", "0-2", "0/3", "300", "36,000"] in lines
    assert "6 jobs, 1 done; to do: 2 finetune, 3 attack" in result.stdout
    assert "to attack: 300 examples, about 36,000 model queries" in result.stdout
    assert "note: mr: from somewhere" in result.stdout
    assert "results/runs/demo" in result.stdout


def test_plan_counts_the_pairs_of_evaluations_apart(shell: Shell, mock: Api, planned: api.Planned) -> None:
    task = TaskSpec(name="stsb", kind="sts", columns=("a", "b"))
    spec = of_sts(EncoderSpec(name="minilm", base="x"), task)
    job = Job.make(spec, ("minilm", "stsb"), {}, 0)
    more = {**planned.estimates, job.key: api.Estimate(1379, told="to evaluate: {:,} pairs")}
    mock.answers["plan"] = dataclasses.replace(planned, jobs=(job, *planned.jobs), estimates=more)
    result = shell("plan", "demo")
    assert ["measure/minilm/stsb", "0", "0/1", "1,379"] in [line.split() for line in result.stdout.splitlines()]
    assert "7 jobs, 1 done; to do: 1 measure, 2 finetune, 3 attack" in result.stdout
    assert "to evaluate: 1,379 pairs\nto attack: 300 examples, about 36,000 model queries" in result.stdout


def test_a_dry_run_prints_the_plan_and_runs_nothing(shell: Shell, mock: Api, planned: api.Planned) -> None:
    mock.answers["plan"] = planned
    dry, plan = shell("run", "demo", "--dry-run"), shell("plan", "demo")
    assert (dry.exit_code, dry.stdout) == (0, plan.stdout)
    assert [name for name, *_ in mock.calls] == ["plan", "plan"]


def test_plan_says_whose_weights_are_in_the_cache(shell: Shell, mock: Api, planned: api.Planned) -> None:
    mock.answers["plan"] = dataclasses.replace(planned, cached=frozenset(job.key for job in planned.jobs[1:3]))
    result = shell("plan", "demo")
    assert "1/3, 2 cached" in result.stdout
    assert "6 jobs, 1 done; to do: 2 finetune (2 in the cache), 3 attack\n" in result.stdout


def test_a_finished_plan_says_so(shell: Shell, mock: Api, planned: api.Planned) -> None:

    mock.answers["plan"] = dataclasses.replace(planned, done=frozenset(job.key for job in planned.jobs))
    assert "6 jobs, 6 done; to do: nothing" in shell("plan", "demo").stdout


# ---------------------------------------------------------------------------------------------------------- table


def test_table_prints_what_the_api_renders(shell: Shell, mock: Api) -> None:
    mock.answers["table"] = '{"cells": ["[bold]", "100%"]}\n'
    result = shell("table", "results/runs/x", "--metric", "aua", "--format", "json", "--layout", "full", "--intervals")
    assert result.stdout == '{"cells": ["[bold]", "100%"]}\n'
    _, arguments, options = mock.calls[0]
    assert arguments == ([Path("results/runs/x")],)
    look = {"bold": None, "notes": None, "names": False, "wide": False}
    look |= {"width": None, "interval_style": None}
    more = {
        "include": (),
        "beside": (),
        "aggregation": "all",
        "only": (),
        "with_paper": None,
        "best": None,
        "link": None,
        **look,
    }
    assert options == {"metric": "aua", "layout": "full", "fmt": "json", "intervals": True, "pick": None} | more
    shell("table", "results/runs/x", "--metric", "contrast", "--pick", "validation")
    assert mock.calls[1][2]["pick"] == "validation"
    shell("table", "x")
    shell("table", "x", "--only", "/minilm/", "--only", "*/pwws/*")
    assert [*mock.calls[3][2]["only"]] == ["/minilm/", "*/pwws/*"]
    plain = {"metric": None, "layout": "paper", "fmt": "markdown", "intervals": False, "pick": None} | more
    assert mock.calls[2][2] == plain


# --------------------------------------------------------------------------------------------------------- attack


def test_attack_shows_each_example_with_its_changes(shell: Shell, mock: Api, tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "films.yaml").write_text("kind: single\ncolumns: [text]\nlabels: [bad, good]\n")
    skipped = outcome(status="skipped", perturbed=None, perturbed_prediction=None, original_prediction=0)
    ended = [outcome(oracle_label=1), skipped]

    def attack(*_: object, seen: Callable[..., object], **__: object) -> Iterator[Outcome]:
        for number, one in enumerate(ended, 1):
            seen(one, number, len(ended))
        yield from ended

    mock.answers["attack"] = attack
    result = shell(
        *("attack", "-e", "minilm", "-t", "films", "-a", "pwws", "-n", "2", "--resources", "local"),
        *("--set", "seeds=3", "--include", tmp_path, "--quiet"),
    )
    assert result.exit_code == 0, result.output
    assert mock.calls[0][1][:4] == ("minilm", "films", "pwws", 2)
    assert mock.options.overrides == ("seeds=0", "resources=local", "seeds=3")
    assert result.stdout == (
        "[1/2] example 17: succeeded, label good, predicted good -> bad, 41 queries, 1 of 3 words changed, "
        "true label of the new text good\n"
        "  a [[good]] -> [[fine]] film\n\n"
        "[2/2] example 17: skipped, label good, predicted bad, wrong before any change\n"
        "  a good film\n\n"
    )


def test_attack_on_an_unknown_task_names_the_option(shell: Shell, mock: Api) -> None:
    result = shell("attack", "-e", "minilm", "-t", "mrx", "-a", "pwws")
    assert result.exit_code == 2
    assert "error: --task: " + unknown("task", "mrx", "mr") in result.stderr


# ----------------------------------------------------------------------------------------------- list and status


@pytest.mark.parametrize("kind", list(KINDS))
def test_list_prints_every_name_on_one_line(shell: Shell, kind: str) -> None:
    result = shell("list", kind)
    assert result.exit_code == 0
    names = [line.split("\t")[0] for line in result.stdout.split("\n\n")[0].splitlines()[1:]]
    assert names == Registry().names(kind)
    assert ("A2TYoo2021" in result.stdout) == (kind == "attacks")


def test_list_without_a_kind_says_which_there_are(shell: Shell) -> None:
    result = shell("list")
    assert result.exit_code == 0
    rows = {row[0]: row[1:] for row in (re.split(r"  +", line.strip()) for line in result.stdout.splitlines()[1:])}
    assert list(rows) == list(KINDS)
    assert rows["finetune"][:2] == ["10", "finetune strategy: makes a victim of an encoder and a task"]


def test_list_says_where_a_module_comes_from_and_what_is_wrong_with_one(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "finetune").mkdir()
    good = (
        "from rbench.train.finetune import FinetuneStrategy\n"
        "class Mine(FinetuneStrategy):\n    title = 'Mine'\n    def run(self, options, context): ...\n"
    )
    (tmp_path / "finetune" / "mine.py").write_text(good)
    (tmp_path / "finetune" / "broken.py").write_text("Options = 3\n")
    result = shell("list", "finetune", "--include", tmp_path)
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert lines["mine"].split("\t")[1] == "Mine" and lines["mine"].endswith(f"--include {tmp_path}")
    assert "a finetune strategy is a subclass of rbench.train.finetune.FinetuneStrategy" in lines["broken"]
    assert lines["clean"].endswith("rbench")


def test_list_includes_a_folder_of_ones_own(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "mine.yaml").write_text("title: Mine\nreference: Me 2026\nlicence: MIT\n")
    result = shell("list", "tasks", "--include", tmp_path)
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("mine"))
    assert line.split("\t")[1:4] == ["Mine", "Me 2026", "MIT"]
    assert line.endswith(f"--include {tmp_path}")


def test_list_prints_what_a_file_says_with_all_that_it_includes(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "encoders").mkdir()
    (tmp_path / "encoders" / "_half.yaml").write_text("layers: 3\ntrain: {data: x, steps: 4}\n")
    (tmp_path / "encoders" / "mine.yaml").write_text("include: _half\nbase: y\ntrain: {steps: 5}\ntitle: Mine\n")
    result = shell("list", "encoders", "mine", "--include", tmp_path)
    path, said = result.stdout.split("\n", 1)
    assert path == f"# {tmp_path / 'encoders' / 'mine.yaml'}" and said.startswith("title: Mine\n")
    expected = {"title": "Mine", "layers": 3, "train": {"data": "x", "steps": 5}, "base": "y"}
    assert yaml.safe_load(said) == expected


@pytest.mark.parametrize(("kind", "name"), [("suites", "quickstart"), ("objectives", "simcse"), ("attacks", "random")])
def test_list_prints_a_file_that_includes_nothing_as_it_is(shell: Shell, kind: str, name: str) -> None:
    text = Registry().path(kind, name).read_text(encoding="utf-8")
    assert shell("list", kind, name).stdout.split("\n", 1)[1] == text


def test_list_shows_the_published_sizes_of_a_task_and_the_repository_of_each_split(shell: Shell) -> None:
    said = yaml.safe_load(shell("list", "tasks", "sst2").stdout)
    assert said["sizes"] == {"train": 67349, "validation": 872, "test": 1821}
    assert said["hub"]["elsewhere"]["test"]["id"] == "SetFit/sst2"


def test_list_refuses_an_unknown_name_and_a_fragment(shell: Shell) -> None:
    result = shell("list", "encoders", "simcse-mni")
    assert result.exit_code == 2 and unknown("encoder", "simcse-mni", "simcse-mini") in result.stderr
    assert "_simcse is a fragment" in shell("list", "encoders", "_simcse").stderr


def test_doctor_says_what_is_there_and_how_to_get_the_rest(shell: Shell, mock: Api) -> None:
    remedy = "run `nltk.download`"
    mock.answers["doctor"] = [
        api.Check(kind="task", name="mr", ok=True, where="/data/mr"),
        api.Check(kind="resources standard", name="synonyms", ok=False, remedy=remedy),
        api.Check(kind="resources local", name="synonyms", ok=False, remedy=remedy),
        api.Check(kind="encoder", name="minilm", ok=None, where="hub"),
    ]
    result = shell("status", "--environment")
    assert result.exit_code == 0
    lines = [re.split(r"  +", line) for line in result.stdout.splitlines()]
    assert ["task mr", "ok", "/data/mr"] in lines
    assert ["resources standard synonyms", "missing", "see below"] in lines
    assert ["encoder minilm", "unchecked", "hub"] in lines
    assert f"missing: resources standard synonyms, resources local synonyms\n  {remedy}\n" in result.stdout
    assert "2 of 4 are there" in result.stdout


# ---------------------------------------------------------------------------------------------------------- output


def test_output_that_is_not_a_terminal_has_no_colours(shell: Shell, mock: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    mock.answers["doctor"] = [api.Check(kind="task", name="mr", ok=True, where="x")]
    mock.answers["attack"] = lambda *_, **__: iter([outcome()])
    for arguments in (
        ["status", "--environment"],
        ["list", "encoders"],
        ["attack", "-e", "minilm", "-t", "mr", "-a", "pwws"],
    ):
        result = shell(*arguments)
        assert result.exit_code == 0
        assert "\x1b" not in result.stdout


def test_control_characters_from_files_do_not_reach_the_terminal(shell: Shell, mock: Api) -> None:
    mock.answers["plan"] = SuiteError('unknown task "\x1b[31m\x07"')
    assert shell("plan", "x\x07").stderr == 'Planning x\\x07\nerror: unknown task "\\x1b[31m\\x07"\n'


def test_a_terminal_that_lacks_a_character_shows_it_escaped() -> None:
    code = (
        "import sys; from rbench import api\n"
        "api.table = lambda *a, **k: 'caf\\u00e9 \\u0430'\n"
        "sys.argv = ['rbench', 'table', 'x']\n"
        "from rbench.cli import main\n"
        "main()\n"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert done.stdout == b"caf\\xe9 \\u0430\n"


def test_a_password_in_an_address_is_never_shown(shell: Shell) -> None:
    result = shell("eval", "https://me:hunter22@localhost:1/x?api_key=SECRETKEY")
    assert result.exit_code != 0 and "localhost:1" in result.stderr
    assert "hunter22" not in result.output and "SECRETKEY" not in result.output


def test_options_of_runs_are_refused_for_files_of_scores(shell: Shell, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("id,score\n1,0.5\n2,0.75\n")
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    assert shell("compare", *files).exit_code == 0
    assert shell("compare", files[0]).exit_code == shell("compare", files[0], tmp_path).exit_code == 2
    for more in (["--metric", "clean"], ["--common"], ["--show", "1"], ["--between", "a", "b"]):
        assert shell("compare", *files, *more).exit_code == 2
