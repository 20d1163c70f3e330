"""Tests `rbench cache` on a full, an empty and a missing cache."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rbench.cli import keeping_verbs
from rbench.schema import Plan
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache
from rbench.system import progress
from tests.cli.conftest import Shell
from tests.store.weights.entries import JOB, OTHER, PLAN, PRETRAIN, fill, swap_two_words


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for a cache, which is not there yet."""
    root = tmp_path / "cache"
    monkeypatch.setenv("RBENCH_CACHE", str(root))
    return root


@pytest.fixture
def cache(root: Path) -> WeightCache:
    """An encoder and two victims."""
    cache = WeightCache(root)
    for job in (PRETRAIN, JOB, OTHER):
        fill(cache, job)
    return cache


def run_of(folder: Path, *keys: str) -> Path:
    """A RUN whose plan has these jobs."""
    RunStore(folder).write_plan(Plan(suite=PLAN.suite, jobs=tuple(job for job in PLAN.jobs if job.key in keys)))
    return folder


def test_list_shows_whose_everything_is_its_size_and_a_total(shell: Shell, root: Path, cache: WeightCache) -> None:
    result = shell("cache")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["kind", "what", "key", "size", "last", "used"]
    assert [re.split(r"  +", line)[:3] for line in lines[1:4]] == [
        ["encoder", PRETRAIN.name, PRETRAIN.key[:8]],
        *sorted(["victim", job.name, job.key[:8]] for job in (JOB, OTHER)),
    ]
    assert re.search(r"  \d\.\d kB  just now$", lines[1])
    assert re.fullmatch(rf"3 entries, \d+\.\d kB, in {root}", lines[-1])


def test_list_says_what_is_in_use(shell: Shell, cache: WeightCache) -> None:
    with cache.using([JOB.key]):
        lines = shell("cache").stdout.splitlines()
    assert next(line.split()[1] for line in lines if line.endswith("in use")) == JOB.name


@pytest.mark.parametrize("words", [(), ("--prune",), ("--verify",)])
def test_where_there_is_no_cache_or_an_empty_one_nothing_is_wrong_and_nothing_made(
    shell: Shell, root: Path, words: tuple[str, ...]
) -> None:
    result = shell("cache", *words)
    assert result.exit_code == 0
    assert str(root) in result.stdout
    assert not root.exists()
    root.mkdir()
    result = shell("cache", *words)
    assert result.exit_code == 0
    assert str(root) in result.stdout
    assert not list(root.iterdir())


def test_list_tells_an_empty_cache_from_none(shell: Shell, root: Path) -> None:
    assert shell("cache").stdout == f"the cache {root} does not exist yet: rbench run makes it\n"
    root.mkdir()
    assert shell("cache").stdout == f"the cache {root} is empty\n"


@pytest.mark.parametrize("words", [(), ("--prune",), ("--verify",)])
def test_a_cache_that_is_a_file_is_an_error_with_its_place(shell: Shell, root: Path, words: tuple[str, ...]) -> None:
    root.touch()
    result = shell("cache", *words)
    assert result.exit_code == 2
    _, after = result.stderr.split("\n", 1)  # below the first line, which says what is being done
    assert after == f"error: {root}: Not a directory\n"


def test_prune_shows_what_would_go_and_removes_it_with_yes_alone(
    shell: Shell, root: Path, cache: WeightCache, tmp_path: Path
) -> None:
    run = run_of(tmp_path / "run", JOB.key)
    shown = shell("cache", "--prune", "--run", run)
    assert shown.exit_code == 0
    assert JOB.name in shown.stdout and OTHER.name not in shown.stdout
    assert re.search(rf"1 entry, \d\.\d kB, in {root}\. Nothing was removed: --yes removes it\.\n$", shown.stdout)
    assert cache.has(JOB.key)
    result = shell("cache", "--prune", "--run", run, "--yes")
    assert result.exit_code == 0
    assert re.fullmatch(rf"removed 1 entry, \d\.\d kB, from {root}\n", result.stdout)
    assert not cache.has(JOB.key) and cache.has(OTHER.key)
    assert shell("cache", "--prune", "--run", run, "-y").stdout == f"nothing to remove in {root}\n"


@pytest.mark.parametrize("words", [("--older-than", "0d"), ("--verify",)])
def test_nothing_is_removed_without_prune_alone(shell: Shell, cache: WeightCache, words: tuple[str, ...]) -> None:
    result = shell("cache", *words, "--yes")
    assert result.exit_code == 2 and "--prune" in result.stderr
    assert cache.has(JOB.key)


def test_prune_keeps_what_any_of_the_runs_needs(shell: Shell, cache: WeightCache, tmp_path: Path) -> None:
    one, other = run_of(tmp_path / "one", JOB.key), run_of(tmp_path / "other", OTHER.key)
    assert shell("cache", "--prune", "--keep", one, "--keep", other, "--yes").exit_code == 0
    assert [cache.has(job.key) for job in (JOB, OTHER, PRETRAIN)] == [True, True, False]


def test_prune_by_age_and_run_together(shell: Shell, cache: WeightCache, tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", JOB.key)
    shell("cache", "--prune", "--run", run, "--older-than", "1d", "--yes")
    assert cache.has(JOB.key)  # used just now
    shell("cache", "--prune", "--run", run, "--older-than", "0h", "--yes")
    assert [cache.has(job.key) for job in (JOB, OTHER, PRETRAIN)] == [False, True, True]


def test_prune_without_options_leaves_what_is_of_use(shell: Shell, root: Path, cache: WeightCache) -> None:
    assert shell("cache", "--prune", "--yes").stdout == f"nothing to remove in {root}\n"
    swap_two_words(cache.place(JOB.key))
    assert "  tokenizer.json was altered\n" in shell("cache", "--prune").stdout
    assert "removed 1 entry" in shell("cache", "--prune", "--yes").stdout
    assert [cache.place(job.key).exists() for job in (JOB, OTHER, PRETRAIN)] == [False, True, True]


def test_prune_says_what_it_kept_because_someone_works_with_it(
    shell: Shell, cache: WeightCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbench.api import housekeeping

    # As if the run had begun between the choice and the removal.
    monkeypatch.setattr(
        housekeeping, "select_items", lambda items, wanted, track: [i for i in items if i.key == JOB.key]
    )
    with cache.using([JOB.key]):
        result = shell("cache", "--prune", "--older-than", "0d", "--yes")
    assert f"kept, for it is in use or cannot be removed: victim {JOB.name}\n" in result.stderr
    assert "removed 0 entries" in result.stdout
    assert cache.has(JOB.key)


@pytest.mark.parametrize("option", ["--run", "--keep"])
def test_prune_refuses_a_folder_that_is_no_run(shell: Shell, cache: WeightCache, tmp_path: Path, option: str) -> None:
    """A slip in --keep must not be taken for a run that needs nothing."""
    run = run_of(tmp_path / "run", JOB.key)
    result = shell("cache", "--prune", option, run, option, tmp_path / "rnu", "--yes")
    assert result.exit_code == 2
    assert "rnu is not a RUN: it has no plan.json. Name the folder that `rbench run` wrote." in result.stderr
    assert all(cache.has(job.key) for job in (JOB, OTHER, PRETRAIN))


def test_prune_refuses_what_is_no_length_of_time(shell: Shell, cache: WeightCache) -> None:
    result = shell("cache", "--prune", "--older-than", "month", "--yes")
    assert result.exit_code == 2
    assert "write hours, days or weeks as in 12h, 30d or 2w" in " ".join(result.stderr.split())
    assert cache.has(JOB.key)


def test_verify_reads_everything_and_names_what_is_damaged(shell: Shell, root: Path, cache: WeightCache) -> None:
    result = shell("cache", "--verify")
    assert result.exit_code == 0
    assert result.stdout == f"3 of 3 encoders and victims in {root} are whole\n"
    assert result.stderr == "Reading all weights in the cache\n", "it took less than half a minute"
    swap_two_words(cache.place(JOB.key))
    (cache.place(OTHER.key) / "record.json").write_text("{")
    result = shell("cache", "--verify")
    assert result.exit_code == 1
    assert f"victim {JOB.name} ({cache.place(JOB.key)}): tokenizer.json was altered\n" in result.stdout
    assert f"damaged unknown ({cache.place(OTHER.key)}): record.json was altered\n" in result.stdout
    assert f"1 of 3 encoders and victims in {root} are whole\n" in result.stdout
    assert "rbench cache --prune --yes removes them now" in result.stderr
    shell("cache", "--prune", "--yes")  # as it says
    assert shell("cache", "--verify").exit_code == 0


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (88_400_000, "88.4 MB"), (999_960, "1.0 MB"), (5e12, "5000.0 GB")],
)
def test_sizes(count: float, shown: str) -> None:
    assert keeping_verbs.format_size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((-5, "just now"), (59, "just now"), (60, "1 minute ago"), (7199, "1 hour ago"), (7200, "2 hours ago")),
        *((86_400, "1 day ago"), (30 * 86_400, "30 days ago"), (1.0e8, "1,157 days ago")),
    ],
)
def test_ages(seconds: float, shown: str) -> None:
    assert keeping_verbs.format_age(seconds) == shown


def test_verify_says_when_there_is_nothing_to_read(shell: Shell, root: Path) -> None:
    assert shell("cache", "--verify").stdout == f"there are no encoders and victims in {root}\n"


@pytest.mark.parametrize(("words", "count"), [(("--verify",), 3), (("--prune",), 4)])
def test_reading_all_weights_shows_how_far_it_is(
    shell: Shell, root: Path, cache: WeightCache, monkeypatch: pytest.MonkeyPatch, words: tuple[str], count: int
) -> None:
    (root / "backends.json").write_text("{}")
    monkeypatch.setattr(progress, "EVERY", -1.0)  # every step is worth a line
    first, *lines = shell("cache", *words).stderr.splitlines()
    assert (
        first
        == {"--verify": "Reading all weights in the cache", "--prune": "Looking for what may go from the cache"}[
            words[0]
        ]
    )
    shown = [re.fullmatch(rf"reading (?:weights|the cache): (\d)/{count}(?:, \d+ s left)?", line) for line in lines]
    assert [int(line[1]) if line else None for line in shown] == list(range(count))
