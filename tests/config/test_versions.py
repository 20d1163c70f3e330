"""Tests VERSIONs: which code a job's key depends on, found by reading the source."""

from __future__ import annotations

import collections
import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rbench import config
from rbench.config import versions
from rbench.config.code import find
from rbench.config.registry import KINDS, Registry
from rbench.errors import SuiteError
from rbench.plan.planner import CodeVersions, PlanInputs, make_plan
from rbench.schema import Plan

SUITE = {
    "name": "all",
    "encoders": ["mini-bert", "mini-static", "simcse-mini", "adcl-mini", {"simcse-mini": {"select_by": "mini-sts"}}],
    "tasks": ["mini-sentiment"],
    "finetune": ["clean", "probe", "freelb", "adversarial"],
    "attacks": ["pwws", "bae", "geometry"],
    "evaluate": ["contrast"],
    "resources": "mini",
}
SCORED = {"name": "scored", "encoders": ["mini-static", "simcse-mini"], "evaluate": ["mini-sts"]}
BUILT = {"name": "built", "encoders": ["adcl-mini"], "tasks": ["mini-sentiment"], "build": ["positives"]}
OPENED = {
    "name": "opened",
    "encoders": ["mini-bert-random"],
    "victims": [{"name": "asked", "function": "theirs:ask", "version": "1"}, {"name": "saved", "model": "./theirs"}],
    "tasks": ["mini-sentiment", "mini-anli"],
    "finetune": ["probe"],
    "attacks": ["textfooler"],
    "resources": "mini",
}
"""Victims that exist, random weights, and a task of several parts."""
COMPARED = {
    "name": "compared",
    "encoders": ["mini-bert", {"name": "served", "endpoint": {"url": "http://a/v1/embeddings", "model": "m"}}],
    "tasks": ["mini-sts", "mini-ranking"],
    "finetune": ["cosine", "retriever"],
    "attacks": ["pwws"],
    "resources": "mini",
}
"""Scores of pairs and rankings, also by an encoder behind an endpoint."""
BUILDS = "measure/*/positives/seed0"
SELECTED = "pretrain/simcse-mini[[]select_by=mini-sts[]]/seed0"
ADVERSARIAL = "finetune/*/adversarial/seed0"
RECIPES = ("pwws", "bae", "textfooler")


def planned(loaded: config.LoadedSuite) -> Plan:
    """The plan of a suite, with one fingerprint for everything in the world."""
    anything: Any = collections.defaultdict(lambda: "f")
    named = {f"{kind}/{name}": CodeVersions(one.source, one.versions) for (kind, name), one in loaded.modules.items()}
    facts = PlanInputs(
        encoders=loaded.encoders,
        tasks=loaded.tasks,
        attacks=loaded.attacks,
        victims=loaded.victims,
        victim_fingerprints=anything,
        tuning=loaded.tuning,
        resources=loaded.resources,
        data=anything,
        sizes=collections.defaultdict(lambda: {"train": 9000, "test": 9000}),
        weights=anything,
        models=loaded.models,
        splits=anything,
        training={name: (profile, {}) for name, (profile, _) in loaded.training_resources.items()},
        strategies=loaded.strategies,
        building=loaded.building,
        sets={task: tuple(one.with_rows("f") for one in sets) for task, sets in loaded.sets.items()},
        code={**named, **{name: CodeVersions(versions=versions.part_versions(name)) for name in versions.PARTS}},
    )
    return make_plan(loaded.suite, facts)


def plans(*suites: dict[str, Any]) -> list[Plan]:
    return [planned(config.load_mapping(suite, registry=Registry())) for suite in suites or (SUITE, SCORED, BUILT)]


declared = versions.declared


def first(path: Path) -> int | None:
    """As if no VERSION had been raised yet, whatever the files say by now."""
    return None if declared(path) is None else 1


@pytest.fixture(scope="module")
def before() -> list[Plan]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(versions, "declared", first)
        return plans()


def test_a_file_with_a_version_has_a_name_of_its_own_in_keys() -> None:
    """A key has the last folder and the name of a file: one of two such files would be read for both."""
    package = Path(versions.__file__).parent.parent
    names = collections.Counter((path.parent.name, path.stem) for path in package.rglob("*.py"))
    stating = [path for path in package.rglob("*.py") if versions.declared(path) is not None]
    assert stating and {path for path in stating if names[path.parent.name, path.stem] > 1} == set()


@pytest.mark.parametrize(
    "kind", [k for k, sort in KINDS.items() if ".py" in sort.suffixes and k not in ("figures", "metrics")]
)
def test_every_bundled_module_has_a_version(kind: str) -> None:
    """A figure and a metric decide no result, nor does a measure without a `run`: they read what is stored."""
    registry = Registry()
    modules = [find(kind, name, registry) for name in registry.names(kind) if registry.path(kind, name).suffix == ".py"]
    modules = [module for module in modules if kind != "measures" or module.open().asks_models]
    assert modules and all(module.bundled for module in modules)
    for module in modules:
        version = versions.declared(module.path)
        assert version is not None and module.versions[f"{kind}.{module.name}"] == version


def test_all_code_that_computes_results_has_a_version_or_is_part_of_a_file_with_one() -> None:
    """What it finds: a new file that nobody reaches, or code that was moved out of one that had a VERSION."""
    deciding = ("train", "encoders", "recipes", "score", "words/substitution", "victims")
    package = Path(versions.__file__).parent.parent
    # A measure's file imports tables for its `table`, which decides no result: its USES says what its `run` uses.
    files = [path for path in versions.versioned_files().values() if not path.is_relative_to(package / "measures")]
    covered = {part for path in files for part in versions.parts_of(path)}
    found = {path for unit in deciding for path in (package / unit).rglob("*.py") if path.name != "__init__.py"}
    known = {
        *("recipes/engine.py", "recipes/workers.py", "recipes/preload.py"),  # who computes, not what
        "recipes/downloads.py",  # fetches word vectors, whose content is in keys
        "encoders/locate.py",  # which files: their content is in keys
        "encoders/adapters.py",  # the same: the files of the adapter and of its base; peft adds one to the other
        "victims/place.py",  # what a folder's files state is in specifications, which are in keys
        "score/attack.py",  # made again from outcomes and records
        # Computed when a table is made.
        *("score/budget.py", "score/words.py", "score/clustered.py"),
        *("score/people.py", "score/powered.py"),
        *("score/paired.py", "score/combined.py", "score/nested_intervals.py"),
    }
    alone = {str(path.relative_to(package)) for path in found - covered}
    assert alone == known, "give each new one a VERSION and its place in versions.PARTS, or name it here with a reason"


def test_version_1_is_in_no_key(before: list[Plan]) -> None:
    jobs = [job for plan in before for job in plan.jobs]
    assert {job.stage for job in jobs} == {"pretrain", "finetune", "attack", "measure"}
    for job in jobs:
        empty = {name for name in ("versions", "source") if name in type(job.spec).model_fields}
        assert not job.spec.versions and empty <= job.spec.without_effect(), (
            f"{job.name}: its key of before versions stays"
        )


USERS = {
    "objectives.simcse": ["pretrain/simcse-mini*"],
    "finetune.freelb": ["finetune/*/freelb/seed0"],
    "finetune._tuning": ["finetune/*/clean/seed0", "finetune/*/freelb/seed0", ADVERSARIAL],
    "finetune._data": ["finetune/*"],
    "attacks.geometry": ["attack/*/geometry/seed0"],
    "measures.positives": [BUILDS],
    "substitution.candidates": ["pretrain/adcl-mini/*", ADVERSARIAL, "attack/*/geometry/seed0", BUILDS],
    "substitution.search": ["pretrain/adcl-mini/*", ADVERSARIAL, "attack/*/geometry/seed0", BUILDS],
    "train.moco": ["pretrain/adcl-mini/*"],
    "train.contrastive_losses": ["pretrain/adcl-mini/*", "pretrain/simcse-mini*"],
    "train.loop": ["pretrain/*"],
    "train.selection": [SELECTED],
    "recipes.masked_lm": ["attack/*/bae/seed0"],
    "recipes.run": ["attack/*"],
    "recipes.binding": [f"attack/*/{name}/seed0" for name in RECIPES],
    "recipes.answering": ["open/asked/*", "attack/*/mini-ranking/*"],
    "attacked.classification": ["attack/*/mini-sentiment/*", "attack/*/mini-anli/*"],
    "attacked.similarity": ["attack/*/mini-sts/*"],
    "attacked.ranking": ["attack/*/mini-ranking/*"],
    "mini.oracle": ["attack/*/mini-sentiment/*", "attack/*/mini-ranking/*"],
    "victims.model": ["open/saved/*"],
    "execution.measured": ["measure/*"],
    "execution.parts": ["finetune/*/mini-anli/*", "open/*/mini-anli/*"],
    "encoders.static": ["finetune/mini-static/*", "measure/mini-static/mini-sts/*"],
    "encoders.random_weights": ["finetune/mini-bert-random/*"],
    "encoders.remote": ["finetune/served/*"],
    "encoders.classifier": [
        "finetune/*",
        "measure/*/contrast_mini_sentiment/seed0",
        *(f"attack/*/{task}/*" for task in ("mini-sts", "mini-ranking")),
    ],
    "encoders.vectors": [
        *("pretrain/adcl-mini/*", ADVERSARIAL, BUILDS, "measure/mini-static/mini-sts/*", "finetune/mini-static/*"),
        *(f"attack/*/{name}/seed0" for name in ("geometry", "textfooler")),
    ],
    "score.contrast": ["measure/*/contrast_mini_sentiment/seed0"],
    "score.sts": ["measure/*/mini-sts/seed0", SELECTED],
    "resources.lexical": [
        "pretrain/adcl-mini/*",
        ADVERSARIAL,
        *(f"attack/*/{name}/seed0" for name in (*RECIPES, "geometry")),
    ],
    "resources.masked_lm": [
        *("pretrain/adcl-mini/*", ADVERSARIAL, BUILDS),
        *(f"attack/*/{name}/seed0" for name in ("bae", "geometry")),
    ],
    "resources.sentences": [f"attack/*/{name}/seed0" for name in ("bae", "textfooler")],
}
"""By the name of code with a VERSION the jobs that use it."""


def file_of(part: str) -> Path:
    return find("attacks", "geometry").path if part == "attacks.geometry" else versions.versioned_files()[part]


def test_a_job_has_the_versions_of_exactly_what_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = {part: number for number, part in enumerate(USERS, start=2)}
    by_file = {file_of(part): number for part, number in raised.items()}
    monkeypatch.setattr(versions, "declared", lambda path: by_file.get(path) or first(path))
    for job in (job for plan in plans(SUITE, SCORED, BUILT, OPENED, COMPARED) for job in plan.jobs):
        used = {part for part, users in USERS.items() if any(fnmatch.fnmatchcase(job.name, one) for one in users)}
        assert job.spec.versions == {part: raised[part] for part in used}, job.name


@pytest.mark.parametrize("raised", ["train.moco", "encoders.classifier"])
def test_raising_one_changes_the_keys_of_exactly_those_that_use_it(
    raised: str, before: list[Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, users = file_of(raised), USERS[raised]
    monkeypatch.setattr(versions, "declared", lambda path: 2 if path == file else first(path))
    for old, new in zip(before, plans(), strict=True):
        changed = {a.key for a, b in zip(old.jobs, new.jobs, strict=True) if a.key != b.key}
        for job, after in zip(old.jobs, new.jobs, strict=True):
            uses = any(fnmatch.fnmatchcase(job.name, pattern) for pattern in users)
            assert (after.spec.versions == {raised: 2}) == uses, job.name
            assert (job.key in changed) == (uses or bool(changed & set(job.needs.values()))), job.name


def test_the_number_stands_for_a_bundled_attack() -> None:
    """Records under results/reference hold the hash of version 1; their jobs are renewed, and their keys read off."""
    sources = [config.load_attack(name, Registry()).source for name in ("geometry", "random")]
    assert sources == ["", ""]


# ------------------------------------------------------------------------------------------------ what a file uses


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in rbench's place."""
    folder = tmp_path / "rbench"
    (folder / "parts").mkdir(parents=True)
    monkeypatch.setattr(versions, "_PACKAGE", folder)
    return folder


def uses(package: Path, source: str, files: Mapping[str, str]) -> dict[str, int]:
    """What a file of a user's uses of a package that has these files (`parts/a` is parts/a.py)."""
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    (package.parent / "mine.py").write_text(source)
    return versions.versions_used_by(package.parent / "mine.py")


def test_imports_count_wherever_they_stand_but_not_those_of_types(package: Path) -> None:
    files = dict.fromkeys(("a", "b", "c"), "VERSION = 3\n")
    source = (
        "from typing import TYPE_CHECKING\nimport rbench.a\n"
        "def f():\n    from rbench.b import g\n"
        "if TYPE_CHECKING:\n    from rbench.c import T\n"
    )
    assert uses(package, source, files) == {"a": 3, "b": 3}


def test_a_file_without_a_version_is_passed_through(package: Path) -> None:
    files = {"a": "from rbench import b\n", "b": "VERSION: int = 2\nfrom rbench import c\n", "c": "VERSION = 4\n"}
    assert uses(package, "from rbench import a\n", files) == {"b": 2, "c": 4}


def test_files_may_import_each_other(package: Path) -> None:
    files = {"a": "VERSION = 2\nimport rbench.b\n", "b": "import rbench.a\nimport rbench.b\n"}
    assert uses(package, "import rbench.b\n", files) == {"a": 2}


def test_of_what_a_package_passes_on_the_file_that_has_it_counts(package: Path) -> None:
    files = {
        "parts/__init__": "from rbench.parts.a import f\nfrom rbench.parts.b import g\n",
        "parts/a": "VERSION = 2\n",
        "parts/b": "VERSION = 3\n",
        "parts/c": "VERSION = 4\n",
    }
    assert uses(package, "from rbench.parts import f\n", files) == {"parts.a": 2}
    assert uses(package, "from rbench.parts import c\n", files) == {"parts.c": 4}


def test_a_file_may_say_itself_what_it_uses(package: Path) -> None:
    files = {"a": "VERSION = 1\nUSES = ('b',)\nimport rbench.c\n", "b": "VERSION = 2\n", "c": "VERSION = 3\n"}
    assert uses(package, "from rbench import a\n", files) == {"a": 1, "b": 2}


def test_a_version_is_a_whole_number(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("\nVERSION = 'two'\n")
    with pytest.raises(SuiteError) as caught:
        versions.declared(tmp_path / "mine.py")
    assert "mine.py:2" in str(caught.value)


def test_a_file_that_is_edited_is_read_again(package: Path) -> None:
    assert uses(package, "import rbench.a\n", {"a": "VERSION = 1\n", "b": "VERSION = 1\n"}) == {"a": 1}
    assert uses(package, "import rbench.b\n", {}) == {"b": 1}
    assert uses(package, "import rbench.b\n", {"b": "VERSION = 12\n"}) == {"b": 12}, "one of rbench's own, too"
