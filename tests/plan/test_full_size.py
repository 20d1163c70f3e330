"""Tests that no bundled suite is refused at full size, on rows as many as were published.

Rows are numbers and weights are names, so that no text is made and nothing is read or downloaded. All that `prepare`
checks of rows is checked: `num_examples`, corpora smaller than a batch, splits that evaluations need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import pytest

from rbench import config as loading
from rbench.api.suites import prepare_suite
from rbench.config.registry import Registry
from rbench.errors import PlanError, ResourceError
from rbench.mini.generators import SIZES
from rbench.plan import prepare as preparing
from rbench.plan.prepare import Options, PreparedSuite
from rbench.plan.rows import RowCache
from rbench.schema import AskedSet, AttackJob, FinetuneJob, Plan, TaskSpec
from rbench.system.digests import FingerprintedPlace
from rbench.tasks import TaskData

pytestmark = pytest.mark.nightly
REGISTRY = Registry()
NOT_PUBLISHED: dict[str, dict[str, int]] = {
    "perspectrum": {"train": 6978, "validation": 2071, "test": 2773},
    "corpus": {"train": 10_000},
    "nli": {"train": 392_702 + 550_152, "validation": 9_815 + 10_000, "test": 9_832 + 10_000},
    # MNLI, SNLI, FEVER and ANLI's three rounds; and a round of the tests.
    "anli": {"train": 392_702 + 550_152 + 208_346 + 162_865, "validation": 10_000, "test": 1_000},
}
"""Rows of tasks that are not on the hub (those of PERSPECTRUM's files, and a small corpus of one's own), and of a
task that is made of several parts."""


@dataclass(frozen=True)
class Numbers(TaskData):
    """Rows that are numbers."""

    def split_fingerprint(self, name: str) -> str:
        return f"{self.spec.name}/{name}"


def sizes_of(spec: TaskSpec) -> Mapping[str, int]:
    """The rows that a task has when it is read as published."""
    if spec.kind == "ranking":
        return {"test": 1000}  # queries, about as many as such sets have
    if spec.generator is not None:
        return SIZES[spec.generator]
    return {str(split): rows for split, rows in spec.sizes.items()} or NOT_PUBLISHED[spec.name]


def numbers(_: RowCache, spec: TaskSpec, *sets: Sequence[Any]) -> TaskData:
    examples: Any = {split: range(rows) for split, rows in sizes_of(spec).items()}
    return Numbers(spec, "published", f"rows of {spec.name}", {}, {}, {}, examples)


def classified(_: RowCache, asked: AskedSet, task: TaskSpec) -> Any:
    return SimpleNamespace(
        set=asked.set, fingerprint=asked.set.name, origin="published", dropped={}, counts={"bundles": 1, "edits": 1}
    )


def place(name: str) -> FingerprintedPlace:
    return FingerprintedPlace(name, f"content of {name}", lambda where: f"content of {where}")


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows as many as were published, and every weight and resource is there."""

    def resources(loaded: loading.LoadedSuite, *_: Any) -> tuple[dict[str, FingerprintedPlace], dict[str, Any]]:
        attacks = {kind for spec in loaded.attacks.values() for kind in spec.needs}
        strategies = {kind for needs in loaded.strategies.values() for kind in needs.resources}
        trained = loaded.training_resources.items()
        training = {name: (profile, {kind: place(kind) for kind in needs}) for name, (profile, needs) in trained}
        return {kind: place(kind) for kind in sorted(attacks | strategies)}, training

    def weights(loaded: loading.LoadedSuite, *_: Any) -> dict[str, FingerprintedPlace]:
        models = (name for named in loaded.models.values() for name in named.values())
        return {name: place(name) for name in (*loaded.encoders, *models)}

    # It reads the texts of rows for their script, and here rows have none.
    monkeypatch.setattr(preparing.scripts, "script_notes", lambda *_: [])
    monkeypatch.setattr(RowCache, "task", numbers)
    monkeypatch.setattr(RowCache, "set", classified)
    monkeypatch.setattr(preparing, "_locate_weights", weights)
    monkeypatch.setattr(preparing, "_locate_resources", resources)
    monkeypatch.setattr(preparing, "_check_packages", lambda *_: None)
    monkeypatch.setattr(preparing, "complete_encoders", lambda loaded, *_: (loaded, []))  # reads the models' own files


@lru_cache(maxsize=8)
def prepared(suite: str, profile: str | None = None, *changes: str) -> PreparedSuite:
    """What planning makes of a suite, which several tests here ask; a test that patches more has changes of its own."""
    return prepare_suite(suite, Options(profile=profile, overrides=changes))


def attacked(plan: Plan) -> dict[str, set[str]]:
    """The tasks on which each encoder is attacked."""
    found: dict[str, set[str]] = {}
    for job in plan.jobs:
        if isinstance(job.spec, AttackJob):
            found.setdefault(plan.draw(job.parts[0]).encoder, set()).add(job.spec.task.name)
    return found


@pytest.mark.parametrize("name", REGISTRY.names("suites"))
def test_a_bundled_suite_is_planned_at_full_size(name: str) -> None:
    made = prepared(name)
    suite = made.plan.suite
    assert {job.parts[0] for job in made.plan.jobs} >= set(suite.encoders)
    assert not suite.attacks or attacked(made.plan) == {encoder: set(suite.tasks) for encoder in suite.encoders}


ONLY_OF_ADCL = "adcl-table9"
"""It shows what ADCL trains on, and measures nothing of another encoder."""


@pytest.mark.parametrize("name", [name for name in REGISTRY.names("suites") if name != ONLY_OF_ADCL])
def test_a_bundled_suite_is_planned_for_an_encoder_of_the_users(name: str) -> None:
    made = prepared(name, None, "encoders=[mini-bert-packaged]")
    assert made.plan.suite.encoders == ("mini-bert-packaged",)
    assert any(job.parts[0] == "mini-bert-packaged" for job in made.plan.jobs)


FIGURE_2 = ["uscal", "robustsentembed", "robustsentembed"]


def test_figure_2_has_the_encoders_and_attacks_of_the_paper_and_its_jobs_are_table_1s() -> None:
    made = prepared("robustsentembed-figure2")
    assert [name.partition("-")[0] for name in attacked(made.plan)] == [*FIGURE_2, "bert"]
    assert {job.key for job in made.plan.jobs} < {job.key for job in prepared("table1").plan.jobs}
    assert [figure.name for figure in made.plan.suite.figures] == ["queries", "queries", "curves"]
    assert "prints no numbers for this figure" in made.plan.suite.notes[0]


@pytest.mark.parametrize(("profile", "tasks", "examples"), [("local", {"mr", "snli"}, 50), ("mini", None, 30)])
def test_figure_2_has_profiles_with_notes_of_their_own(profile: str, tasks: set[str] | None, examples: int) -> None:
    made = prepared("robustsentembed-figure2", profile)
    attacks = [job for job in made.plan.jobs if isinstance(job.spec, AttackJob)]
    assert len({job.parts[-1] for job in attacks}) == 5
    assert {job.spec.num_examples for job in attacks if isinstance(job.spec, AttackJob)} == {examples}
    assert tasks is None or {job.parts[1] for job in attacks} == tasks
    assert made.plan.suite.notes[0] != prepared("robustsentembed-figure2").plan.suite.notes[0]


def test_figures_change_no_key() -> None:
    with_figures, without = (prepared("table1", "mini", f"figures={value}") for value in ("[queries, curves]", "[]"))
    assert with_figures.plan.suite.figures and not without.plan.suite.figures
    assert [job.key for job in with_figures.plan.jobs] == [job.key for job in without.plan.jobs]


METHODS = ["simcse", "uscal", "robustembed", "robustsentembed"]


def rows_of_table_1(plain: str, base: str) -> list[str]:
    """The encoders of Table 1: the base, its control, and the methods on it, the last one in both variants."""
    methods = [f"{method}-{base}" for method in METHODS]
    released = "-released" if base == "bert-base" else "[variant=released]"
    return [plain, f"{plain}-random", *methods, f"robustsentembed-{base}{released}"]


def test_table_1_attacks_1000_test_sentences_of_sst2_with_the_encoders_of_the_paper() -> None:
    made = prepared("table1")
    assert list(attacked(made.plan)) == rows_of_table_1("bert-base", "bert-base")
    cells = [job for job in made.plan.jobs if isinstance(job.spec, AttackJob) and job.spec.task.name == "sst2"]
    assert len(cells) == 7 * 5 * 5  # encoders, attacks, seeds
    assert {job.spec.num_examples for job in cells if isinstance(job.spec, AttackJob)} == {1000}
    assert len([job for job in made.plan.jobs if job.stage == "pretrain"]) == 4


def test_the_control_of_table_1_is_fine_tuned_for_each_task_and_seed_and_needs_no_training() -> None:
    tuned = [job for job in prepared("table1").plan.jobs if job.parts[0] == "bert-base-random"]
    finetunes = [job for job in tuned if isinstance(job.spec, FinetuneJob)]
    assert len(finetunes) == 7 * 5 and not any(job.needs for job in finetunes)
    for job in finetunes:
        assert isinstance(job.spec, FinetuneJob) and job.spec.encoder.random_weights and job.spec.encoder.control


@pytest.mark.parametrize(("profile", "plain", "tasks", "attacks"), [("local", "minilm", 5, 6), ("mini", "mini", 2, 5)])
def test_table_1_has_profiles_with_the_same_methods_and_notes_of_their_own(
    profile: str, plain: str, tasks: int, attacks: int
) -> None:
    made = prepared("table1", profile)
    expected = rows_of_table_1("mini-bert" if plain == "mini" else plain, plain)
    assert list(attacked(made.plan)) == expected
    assert len([job for job in made.plan.jobs if job.stage == "attack"]) == 7 * tasks * attacks
    assert made.plan.suite.notes and not set(made.plan.suite.notes) & set(prepared("table1").plan.suite.notes)


@pytest.mark.parametrize(
    ("change", "sizes"), [("num_examples.sst2=1822", ("1822", "1821")), ("num_examples=1100", ("1100", "1066"))]
)
def test_more_examples_than_were_published_are_still_refused(change: str, sizes: tuple[str, str]) -> None:
    with pytest.raises(PlanError) as caught:
        prepared("table1", None, change)
    assert all(size in str(caught.value) for size in sizes)


def test_a_corpus_smaller_than_a_batch_is_still_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NOT_PUBLISHED, "corpus", {"train": 20})
    with pytest.raises(ResourceError):
        prepared("dose-response", "part1")


def test_a_test_split_that_was_not_stated_would_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a new task of a suite has to say how many rows it has."""
    monkeypatch.setattr("tests.plan.test_full_size.sizes_of", lambda spec: {"train": 10**6})
    with pytest.raises(PlanError):
        prepared("table1", None, "tasks=[sst2]", "encoders=[bert-base]")
