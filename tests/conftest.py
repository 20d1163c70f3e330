"""Settings for all tests: one thread, two hypothesis profiles, and a cache that no test shares with the user."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from rbench.system import own_code
from tests.browser import axe as axe
from tests.browser import browser as browser

if TYPE_CHECKING:
    from rbench.schema import TaskSpec
    from rbench.tasks import TaskData
    from rbench.tasks.clean import ReservedTexts

# The networks are tiny: a second thread would only wait for the first, and take the core of the other test process.
# torch and numpy read this when they are imported, in this process and in those that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("NLTK_DATA", None)  # NLTK reads it when it is imported, which some tests do as they are collected

# Where the environment forbids byte code, as that of some containers does, each run of the tests would compile all of
# them again, and each process that they start all of rbench.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Before its first draw Hypothesis reads the constants in all local modules, for a minute. No test needs these.
providers._get_local_constants = lambda: providers._local_constants

# Plans, records and networks are many objects that live on. Python would look for cycles among them after each 700 new
# ones; what a test leaves is small.
gc.set_threshold(20_000, 20, 20)

# Machines are busy, and speed is measured in benchmarks/. So no test has a deadline.
settings.register_profile("ci", deadline=None, max_examples=40)
settings.register_profile("nightly", deadline=None, max_examples=120)


def pytest_configure(config: pytest.Config) -> None:
    """Without the nightly tests, properties are tried on fewer examples too, where a test does not say on how many."""
    settings.load_profile("ci" if config.option.markexpr == "not nightly" else "nightly")


FROZEN: pytest.StashKey[tuple[Path, int]] = pytest.StashKey()
"""The file of tests, and the number of imported modules, when the objects in memory were frozen last."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What is in memory before a file of tests, or after a library was imported, stays: no collection of garbage looks
    through it again.

    Each training calls `gc.collect`. By the middle of a run of all tests there are a million objects, and looking
    through them takes longer than the training of a tiny network.
    """
    file, count = item.config.stash.get(FROZEN, (Path(), 0))
    if file != item.path or len(sys.modules) > count + 100:
        gc.collect()
        gc.freeze()
        item.config.stash[FROZEN] = item.path, len(sys.modules)


@pytest.fixture(scope="session", autouse=True)
def own_surroundings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads the user's search paths or writes the user's cache."""
    patch = pytest.MonkeyPatch()
    for name in ("RBENCH_DATA", "RBENCH_MODELS", "RBENCH_INCLUDE", "NLTK_DATA"):
        patch.delenv(name, raising=False)
    patch.setenv("RBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session", autouse=True)
def no_test_is_a_users_file() -> None:
    """An error names the last line of a user's own Python. A test, which calls rbench in the user's place, is none."""
    folders = (*own_code._rbench_folders(), Path(__file__).parent)
    own_code._rbench_folders = lambda: folders  # type: ignore[assignment]


@pytest.fixture(scope="session", autouse=True)
def one_fork_server() -> Iterator[None]:
    """The first test that starts processes decides what their server imports: always what attacks need.

    Otherwise a server that another test started would leave the import of PyTorch to each worker process.
    """
    if sys.platform != "linux":
        yield
        return
    from multiprocessing import forkserver

    forkserver.set_forkserver_preload(["rbench.recipes.preload"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forkserver, "set_forkserver_preload", lambda modules: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_back_end() -> Iterator[Callable[..., str]]:
    """The back-end `auto` is PyTorch. To measure which is the fastest compiles each network for OpenVINO, for seconds.

    The value is what measures. Processes that tests start do measure.
    """
    from rbench.encoders.inference import backends

    measure = backends._measure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "_measure", lambda *given: "torch")
        yield measure


@pytest.fixture(scope="session", autouse=True)
def generated_rows_are_cleaned_once() -> Iterator[None]:
    """A run opens the rows of its tasks anew. Those of the embedded world never change, and most tests use them."""
    from rbench import tasks

    read = tasks.open_task
    kept: dict[Any, TaskData] = {}

    def open_task(spec: TaskSpec, data_path: Sequence[Path] = (), reserved: Sequence[ReservedTexts] = ()) -> TaskData:
        if spec.generator is None:
            return read(spec, data_path, reserved)
        without = tuple((one.name, one.keys, tuple(sorted(one.shared.items()))) for one in reserved)
        named = spec.model_dump_json(), without
        if named not in kept:
            kept[named] = read(spec, data_path, reserved)
        return kept[named]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "open_task", open_task)
        yield


@pytest.fixture(scope="session", autouse=True)
def generated_rows_are_made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All processes of pytest-xdist find the rows of the embedded world in one folder. To make all takes long."""
    from rbench import mini

    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "generated rows"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mini, "default_cache", lambda: folder)
        yield


@pytest.fixture
def measuring(one_back_end: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The back-end `auto` is the one that is the fastest on this machine, as for users."""
    from rbench.encoders.inference import backends

    monkeypatch.setattr(backends, "_measure", one_back_end)


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A verb that a test or a fixture runs shows rbench's log on standard error, and no test finds the log so."""
    log = logging.getLogger("rbench")
    log.handlers[:], log.propagate = [], True
    log.disabled = False  # TextAttack disables all loggers, where a test imports it before rbench.attack
    log.setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)  # and libraries change these two
    logging.getLogger().setLevel(logging.WARNING)
    yield


@pytest.fixture(autouse=True)
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A module that a test wrote and imported is forgotten after it: another test may write one of the same name."""
    before = len(sys.modules)
    yield
    if len(sys.modules) != before:
        base = str(tmp_path_factory.getbasetemp())
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__dict__", {}).get("__file__") or "").startswith(base):
                del sys.modules[name]
