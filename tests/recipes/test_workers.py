"""Compares a cell attacked in several processes with the same cell in this process."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file, save_file

from rbench import recipes
from rbench.errors import JobError, ModelChangedError, ResourceError
from rbench.recipes import workers as module
from rbench.recipes.engine import AttackEngine, make_oracle
from rbench.schema import AttackSpec, Outcome, ResourceKind, VictimSpec
from rbench.system import digests
from rbench.tasks import Example
from tests.recipes import world
from tests.refusals import refusal

CONFIG = recipes.EngineConfig(backend="torch", pooled=1)


@pytest.fixture(scope="module")
def attack_task(bert: Path, lm: Path, tmp_path_factory: pytest.TempPathFactory) -> recipes.AttackTask:
    folder = tmp_path_factory.mktemp("saved")
    world.victim(bert, world.SINGLE).classifier.save(folder, {"max_length": 64})
    resources = world.resources(lm)
    return recipes.AttackTask(
        spec=world.spec("textbugger"),
        path=None,
        task=world.SINGLE,
        seed=0,
        victim=digests.locate_folder(folder),
        name="random",
        resources=resources.resource_set,
        places=tuple((kind, resources.located(kind)) for kind in get_args(ResourceKind)),
    )


@pytest.fixture(scope="module")
def examples(single: recipes.Victim) -> list[Example]:
    return world.examples(world.SINGLE, single, 14)


def plain(outcomes: Any) -> dict[str, dict[str, Any]]:
    return {o.example_id: o.model_dump(exclude={"seconds"}) for o in outcomes}


@pytest.fixture(scope="module")
def expected(attack_task: recipes.AttackTask, examples: list[Example]) -> dict[str, dict[str, Any]]:
    return plain(AttackEngine(CONFIG).run(attack_task, examples))


def test_a_function_that_is_another_at_the_end_of_a_cell_ends_it(
    attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "exchanged.py").write_text(
        "later = []\ndef ask(texts):\n    return [[0.3, 0.7] if later else [0.4, 0.6] for _ in texts]\n"
    )
    monkeypatch.chdir(tmp_path)
    given = VictimSpec(name="exchanged", function="exchanged:ask", version="1")
    place = digests.FingerprintedPlace("function exchanged:ask", "-", lambda where: "-")
    asked = dataclasses.replace(attack_task, victim=place, name="exchanged", given=given)
    engine = AttackEngine(CONFIG)
    assert len(plain(engine.run(asked, examples[:1]))) == 1
    outcomes = engine.run(asked, examples[:1])
    assert next(outcomes).example_id == examples[0].id
    sys.modules["exchanged"].later.append(True)
    with pytest.raises(ModelChangedError):
        next(outcomes)


def test_examples_under_way_at_once_have_the_outcomes_of_examples_one_by_one(
    attack_task: recipes.AttackTask, examples: list[Example], expected: dict[str, Any]
) -> None:
    assert plain(AttackEngine(recipes.EngineConfig(backend="torch", pooled=30)).run(attack_task, examples)) == expected


@pytest.mark.parametrize("name", ["geometry", "random", pytest.param("bertattack", marks=pytest.mark.nightly), "bae"])
def test_all_kinds_of_attacks_may_be_under_way_at_once(
    attack_task: recipes.AttackTask, examples: list[Example], name: str
) -> None:
    place = world.ROOT / "attacks" / f"{name}.py"
    more = {"spec": world.spec(name), "path": place if place.exists() else None}
    other = recipes.AttackTask(**(vars(attack_task) | more))
    alone = plain(AttackEngine(CONFIG).run(other, examples[:6]))
    assert plain(AttackEngine(recipes.EngineConfig(backend="torch", pooled=4)).run(other, examples[5::-1])) == alone
    assert {o["status"] for o in alone.values()} > {"skipped"}
    assert all(o["status"] != "errored" for o in alone.values())


def test_processes_have_the_outcomes_of_one(
    attack_task: recipes.AttackTask, examples: list[Example], expected: dict[str, Any]
) -> None:
    taken: list[str] = []

    def lazily() -> Iterator[Example]:
        for one in examples:
            taken.append(one.id)
            yield one

    with recipes.Workers(2, recipes.EngineConfig(backend="torch", pooled=2)) as workers:
        workers.warm_up(len(examples))
        outcomes = list(workers.run(attack_task, examples))
        pids = {worker.process.pid for worker in workers._workers}
        assert len(outcomes) == len(examples) and plain(outcomes) == expected
        assert list(workers.run(attack_task, [])) == []
        again = list(workers.run(attack_task, examples[3:6]))  # the processes stay
        assert plain(again) == {e.id: expected[e.id] for e in examples[3:6]}
        assert {worker.process.pid for worker in workers._workers} == pids
        assert workers.backend(attack_task) == "torch"
        first = next(iter(workers.run(attack_task, lazily(), len(examples))))
    assert first.example_id in taken, "examples are taken when they are needed"
    assert len(taken) <= 2 * (2 + module.WAITING_EXAMPLES) + 1 < len(examples)
    assert not workers._workers


def test_a_few_examples_start_no_process(attack_task: recipes.AttackTask, examples: list[Example]) -> None:
    with recipes.Workers(2, CONFIG) as workers:
        assert len(list(workers.run(attack_task, examples[: module.FEW_EXAMPLES]))) == module.FEW_EXAMPLES
        assert not workers._workers and workers.backend(attack_task) == "torch"


@pytest.mark.nightly
def test_a_process_that_dies_is_replaced_and_its_examples_are_attacked_again(
    attack_task: recipes.AttackTask, examples: list[Example], expected: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    done: list[Outcome] = []
    with recipes.Workers(2, CONFIG) as workers:
        for outcome in workers.run(attack_task, examples):
            done.append(outcome)
            if len(done) == 2:
                os.kill(workers._workers[0].process.pid, signal.SIGKILL)
    assert len(done) == len(examples) and plain(done) == expected
    assert "ended by signal 9. It may have run out of memory: use fewer --workers. Its" in caplog.text


@pytest.mark.nightly
@pytest.mark.parametrize("apart", [{"apart": True}, {}])
def test_processes_share_the_threads_of_this_one_and_so_do_those_that_replace_them(
    attack_task: recipes.AttackTask,
    examples: list[Example],
    tmp_path: Path,
    apart: dict[str, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one worker too: what killed others is attacked apart from this process, which has one thread in tests."""
    monkeypatch.setattr(module, "cores", lambda: 8)  # on a machine with two, a share of the cores is one thread too
    counts = f'import torch; open({str(tmp_path / "threads")!r}, "a").write(f"{{torch.get_num_threads()}} ")'
    counted = own(attack_task, tmp_path, "os._exit(3)", counts)
    counted = recipes.AttackTask(**(vars(counted) | {"foreign": False}))
    poisoned = examples[1]._replace(texts=("poison " + examples[1].texts[0],))
    with recipes.Workers(1 if apart else 2, CONFIG) as workers:
        assert len([*workers.run(counted, [poisoned, *examples[2:11]], **apart)]) == 10
    assert {*(tmp_path / "threads").read_text().split()} == {"1"} and torch.get_num_threads() == 1


@pytest.mark.parametrize(("count", "allowed", "each"), [(1, 6, 6), (2, 1, 1), (2, 6, 3)])
def test_each_process_has_its_share_of_the_threads(
    monkeypatch: pytest.MonkeyPatch, count: int, allowed: int, each: int
) -> None:
    monkeypatch.setattr(module, "limit_threads", lambda: allowed)
    workers = recipes.Workers(count, CONFIG)
    assert workers._threads_each == each
    monkeypatch.setattr(module, "limit_threads", lambda: 64)  # whatever is found out later
    assert workers._threads_each == each


def ends(attack_task: recipes.AttackTask, folder: Path) -> recipes.AttackTask:
    """The cell with an attack of rbench's own that ends its process on texts with the word `poison`."""
    return recipes.AttackTask(**(vars(own(attack_task, folder, "os._exit(3)")) | {"foreign": False}))


def test_an_example_that_ends_two_processes_is_errored_and_the_others_are_not(
    attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path
) -> None:
    poisoned = examples[1]._replace(texts=("poison " + examples[1].texts[0],))
    with recipes.Workers(2, CONFIG) as workers:
        done = {o.example_id: o for o in workers.run(ends(attack_task, tmp_path), [poisoned, *examples[2:11]])}
    assert done.keys() == {e.id for e in examples[1:11]}
    assert {name for name, o in done.items() if o.status == "errored"} == {poisoned.id}
    assert done[poisoned.id].error == (
        "WorkerEnded: twice a process that attacked this example ended with exit code 3."
    )
    assert (done[poisoned.id].original, done[poisoned.id].label) == (poisoned.texts, poisoned.label)


def test_what_may_have_ended_a_process_is_attacked_apart_from_this_one(
    attack_task: recipes.AttackTask, examples: list[Example], monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed: list[Example] = []
    monkeypatch.setattr(
        recipes.Workers,
        "_distribute",
        lambda workers, task, todo, expected, count: iter(distributed.extend(todo) or ()),
    )
    with recipes.Workers(1, CONFIG) as workers:
        assert list(workers.run(attack_task, examples[1:3], apart=True)) == []
        assert {one.id for one in distributed} == {one.id for one in examples[1:3]}
        assert list(workers.run(attack_task, [], apart=True)) == [] and len(distributed) == 2


def test_processes_that_end_again_and_again_fail_the_cell(
    attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DEATHS", 1)
    many = [one._replace(texts=("poison " + one.texts[0],)) for one in examples[:9]]
    with (
        recipes.Workers(2, CONFIG) as workers,
        refusal(JobError, "code 3"),
    ):
        list(workers.run(ends(attack_task, tmp_path), many))
    assert not workers._workers


def test_a_broken_victim_is_said_here(attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path) -> None:
    for file in Path(attack_task.victim.where).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    head = load_file(tmp_path / "head.safetensors")
    save_file({name: torch.full_like(t, torch.nan) for name, t in head.items()}, tmp_path / "head.safetensors")
    broken = recipes.AttackTask(**(vars(attack_task) | {"victim": digests.locate_folder(tmp_path)}))
    with recipes.Workers(2, CONFIG) as workers, pytest.raises(JobError, match="random"):
        list(workers.run(broken, examples))


def test_an_attack_that_cannot_read_its_files_is_no_dead_process(
    attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path
) -> None:
    file = tmp_path / "bookish.py"
    file.write_text(
        "from rbench.attacks import AttackMethod\n\n\nclass Bookish(AttackMethod):\n"
        '    def build(self, victim, resources, options, task):\n        open("no/such/words.txt")\n'
    )
    spec = world.spec("random").model_copy(update={"name": "bookish", "parameters": {}})
    bookish = recipes.AttackTask(**(vars(attack_task) | {"spec": spec, "path": file}))
    with (
        recipes.Workers(2, CONFIG) as workers,
        refusal(JobError, "FileNotFoundError", "no/such/words.txt"),
    ):
        list(workers.run(bookish, examples))


def test_what_fails_in_one_example_is_in_its_outcome(
    attack_task: recipes.AttackTask, examples: list[Example], expected: dict[str, Any]
) -> None:
    odd = [*examples[:4], examples[0]._replace(id="odd", texts=("",)), *examples[4:]]
    outcomes = plain(AttackEngine(recipes.EngineConfig(backend="torch", pooled=4)).run(attack_task, odd))
    odd_one = outcomes.pop("odd")
    assert odd_one["status"] in ("errored", "failed", "skipped")
    assert outcomes == expected


def test_a_sensible_number_on_a_cpu_is_at_most_the_cores_and_what_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 64)
    assert 1 <= recipes.sensible("cpu") <= module.MAX_PROCESSES
    monkeypatch.setattr(module, "MEMORY_EACH", 1 << 60)
    assert recipes.sensible("cpu") == 1


@pytest.mark.parametrize(
    ("free", "available", "number"),
    [(80, 16, 4), (36, 16, 2), (12, 16, 1), (80, 4, 2), (80, 1, 1)],
    ids=["large", "medium", "small", "four cores", "one core"],
)
def test_a_sensible_number_on_a_gpu_leaves_each_process_its_memory_and_two_cores(
    free: int, available: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free << 30, 96 << 30))
    monkeypatch.setattr(module, "shared_cores", lambda: available)
    monkeypatch.setattr(module, "memory", lambda: 128 << 30)
    assert recipes.sensible("cuda") == number
    monkeypatch.setattr(module, "memory", lambda: 4 << 30)
    assert recipes.sensible("cuda") == 1


@pytest.mark.parametrize(("device", "threads"), [("cpu", 2), ("cuda", 1)])
def test_beside_a_gpu_pytorch_has_one_thread_and_afterwards_those_that_it_had(
    attack_task: recipes.AttackTask, examples: list[Example], device: str, threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        workers = recipes.Workers(1, recipes.EngineConfig(device))
        workers._engine = SimpleNamespace(run=lambda *given: iter([torch.get_num_threads()]))  # type: ignore[assignment]
        assert list(workers.run(attack_task, examples)) == [threads]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("device", "length", "pooled"), [("cpu", 150, 4), ("cpu", 30, 16), ("cuda", 150, 16), ("cuda", 30, 16)]
)
def test_each_of_several_processes_on_a_gpu_has_enough_examples_under_way_to_fill_batches(
    attack_task: recipes.AttackTask,
    examples: list[Example],
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    length: int,
    pooled: int,
) -> None:
    class Begun(Exception):
        pass

    def begin(task: recipes.AttackTask, pooled: int) -> None:
        raise Begun(pooled)

    fake = SimpleNamespace(begin=begin, end=lambda: None)
    monkeypatch.setattr(module._Worker, "start", lambda *given: fake)
    many = [examples[0]._replace(id=str(i), texts=("w" * length,)) for i in range(256)]
    with pytest.raises(Begun, match=f"^{pooled}$"):
        list(recipes.Workers(4, recipes.EngineConfig(device)).run(attack_task, many))


def test_a_cell_of_phrases_is_attacked_by_one_process(attack_task: recipes.AttackTask, examples: list[Example]) -> None:
    phrases = [examples[0]._replace(id=str(i), texts=("a good film",)) for i in range(20)]
    workers = recipes.Workers(2, recipes.EngineConfig())
    workers._engine = SimpleNamespace(run=lambda *given: iter(["here"]))  # type: ignore[assignment]
    assert list(workers.run(attack_task, phrases)) == ["here"], "and none is started"

    class Begun(Exception):
        pass

    def begin(task: recipes.AttackTask, pooled: int) -> None:
        raise Begun(pooled)

    taken, idle = (SimpleNamespace(begin=one, end=lambda: None) for one in (begin, None))
    workers._workers = [taken, idle]  # type: ignore[list-item]
    with pytest.raises(Begun, match=r"^16$"):
        list(workers.run(attack_task, iter(phrases), 20))


def test_victim_and_resources_are_kept_for_the_next_cell(
    attack_task: recipes.AttackTask, examples: list[Example]
) -> None:
    engine = AttackEngine(CONFIG)
    list(engine.run(attack_task, examples[:2]))
    victim, resources = engine._victim(attack_task), engine._load_resources(attack_task)
    other = recipes.AttackTask(**(vars(attack_task) | {"spec": world.spec("pwws"), "seed": 1}))
    list(engine.run(other, examples[:2]))
    assert engine._victim(other) is victim and engine._load_resources(other) is resources
    renamed = recipes.AttackTask(**(vars(attack_task) | {"name": "another"}))
    assert engine._victim(renamed) is not victim


@pytest.fixture
def copied(attack_task: recipes.AttackTask, tmp_path: Path) -> recipes.AttackTask:
    """The cell with a victim and a masked LM of its own, which a test may change."""
    places = dict(attack_task.places)
    victim, lm = (
        shutil.copytree(p.where, tmp_path / n) for n, p in (("v", attack_task.victim), ("lm", places["masked_lm"]))
    )
    own = tuple((places | {"masked_lm": digests.locate_folder(lm)}).items())
    return recipes.AttackTask(**(vars(attack_task) | {"victim": digests.locate_folder(victim), "places": own}))


def exchange(place: Path) -> None:
    """Other weights in a folder: all numbers change their sign."""
    for file in place.glob("*.safetensors"):
        weights = {name: -tensor.clone() for name, tensor in load_file(file).items()}
        file.unlink()
        save_file(weights, file, {"format": "pt"})


def untouched() -> Iterator[Example]:
    """Examples that nobody may take."""
    raise AssertionError("an example was taken")
    yield


def test_another_victim_in_the_same_folder_is_opened_anew(copied: recipes.AttackTask, examples: list[Example]) -> None:
    engine = AttackEngine(CONFIG)
    before = plain(engine.run(copied, examples[:4]))
    exchange(Path(copied.victim.where))
    with refusal(JobError, copied.victim.where):
        list(engine.run(copied, untouched()))
    replanned = recipes.AttackTask(**(vars(copied) | {"victim": digests.locate_folder(Path(copied.victim.where))}))
    after = plain(AttackEngine(CONFIG).run(replanned, examples[:4]))
    assert plain(engine.run(replanned, examples[:4])) == after != before


def test_another_masked_lm_in_the_same_folder_is_opened_anew(
    copied: recipes.AttackTask, examples: list[Example]
) -> None:
    attack_task = recipes.AttackTask(**(vars(copied) | {"spec": world.spec("bae")}))
    engine, folder = AttackEngine(CONFIG), Path(dict(attack_task.places)["masked_lm"].where)
    before = plain(engine.run(attack_task, examples[:4]))
    exchange(folder)
    with refusal(JobError, str(folder)):
        list(engine.run(attack_task, untouched()))
    places = dict(attack_task.places) | {"masked_lm": digests.locate_folder(folder)}
    replanned = recipes.AttackTask(**(vars(attack_task) | {"places": tuple(places.items())}))
    after = plain(AttackEngine(CONFIG).run(replanned, examples[:4]))
    assert plain(engine.run(replanned, examples[:4])) == after != before


@pytest.mark.parametrize(("what", "count"), [("victim", 1), ("masked_lm", 1), ("masked_lm", 2)])
def test_what_is_not_what_was_planned_is_refused_in_every_process(
    copied: recipes.AttackTask, examples: list[Example], what: str, count: int
) -> None:
    place = copied.victim if what == "victim" else dict(copied.places)["masked_lm"]
    exchange(Path(place.where))
    attack_task = recipes.AttackTask(**(vars(copied) | {"spec": world.spec("bae")}))
    with recipes.Workers(count, CONFIG) as workers, pytest.raises(JobError) as caught:
        list(workers.run(attack_task, examples))
    for said in (place.where, place.fingerprint, digests.locate_folder(Path(place.where)).fingerprint):
        assert said in str(caught.value)


@pytest.mark.parametrize("what", ["victim", "masked_lm"])
def test_no_outcome_is_of_anything_else(copied: recipes.AttackTask, examples: list[Example], what: str) -> None:
    place = copied.victim if what == "victim" else dict(copied.places)["masked_lm"]
    attack_task = recipes.AttackTask(**(vars(copied) | {"spec": world.spec("bae")}))
    outcomes = []
    with refusal(JobError, place.where):
        for outcome in AttackEngine(CONFIG).run(attack_task, examples):
            outcomes.append(outcome)
            if len(outcomes) == 3:
                exchange(Path(place.where))
    assert len(outcomes) == 3


def test_a_resource_that_was_not_planned_for_is_refused(
    attack_task: recipes.AttackTask, examples: list[Example]
) -> None:
    places = tuple((kind, place) for kind, place in attack_task.places if kind != "masked_lm")
    bare = recipes.AttackTask(**(vars(attack_task) | {"spec": world.spec("bae"), "places": places}))
    with pytest.raises(ResourceError, match="masked_lm"):
        list(AttackEngine(CONFIG).run(bare, examples))
    places = tuple((kind, place) for kind, place in attack_task.places if kind != "synonyms")
    bare = recipes.AttackTask(**(vars(attack_task) | {"spec": world.spec("pwws"), "places": places}))
    with pytest.raises(ResourceError, match="synonyms"):
        list(AttackEngine(CONFIG).run(bare, examples))


def test_only_the_embedded_world_has_an_oracle() -> None:
    assert make_oracle(world.SINGLE) is None
    read = make_oracle(world.SINGLE.model_copy(update={"generator": "mini-sentiment"}))
    row = world.mini.rows("mini-sentiment", "test")[0]
    assert read is not None and read((str(row["text"]),)) == row["label"]


OWN = """
import os, sys
from textattack import Attack
from textattack.constraints.pre_transformation import RepeatModification
from textattack.goal_functions import UntargetedClassification
from textattack.search_methods import GreedySearch
from textattack.transformations import WordSwap
from rbench.attacks import AttackMethod

class Swap(WordSwap):
    def _get_replacement_words(self, word):
        if word == "poison":
            {action}
        return [word[::-1]]

class Own(AttackMethod):
    def build(self, victim, resources, options, task):
        {building}
        return Attack(UntargetedClassification(victim), [RepeatModification()], Swap(), GreedySearch())
"""


def own(attack_task: recipes.AttackTask, folder: Path, action: str, building: str = "pass") -> recipes.AttackTask:
    """The cell with a user's own attack."""
    path = folder / "own.py"
    path.write_text(OWN.format(action=action, building=building))
    return recipes.AttackTask(**(vars(attack_task) | {"spec": AttackSpec(name="own"), "path": path, "foreign": True}))


@pytest.mark.parametrize("count", [1, 2])
def test_a_users_attack_that_ends_its_process_ends_only_its_job(
    count: int, attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path
) -> None:
    exits = own(attack_task, tmp_path, "os._exit(3)")
    fine = [examples[0], examples[1]._replace(texts=("poison " + examples[1].texts[0],), label=examples[1].label)]
    with recipes.Workers(count, CONFIG) as workers:
        done = []
        with refusal(JobError, "code 3", "own.py"):
            for outcome in workers.run(exits, [*fine, *examples[2:4]]):
                done.append(outcome)
        assert {o.example_id for o in done} <= {e.id for e in examples[:4]} - {examples[1].id}
        assert [o.example_id for o in workers.run(attack_task, examples[:1])] == [examples[0].id]  # the next job
        assert workers.backend(attack_task) == "torch"


def test_attacks_of_rbench_stay_in_this_process_where_one_is_asked_for(
    attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path
) -> None:
    bundled = recipes.AttackTask(**(vars(own(attack_task, tmp_path, "pass")) | {"foreign": False}))
    with recipes.Workers(1, CONFIG) as workers:
        assert len(list(workers.run(attack_task, examples[:1]))) == len(list(workers.run(bundled, examples[:1]))) == 1
        assert not workers.started


def test_nothing_to_do_starts_no_process(attack_task: recipes.AttackTask, tmp_path: Path) -> None:
    with recipes.Workers(1, CONFIG) as workers:
        assert list(workers.run(own(attack_task, tmp_path, "pass"), [])) == [] and not workers.started


def test_a_file_that_exits_while_the_attack_is_built_fails_the_job(
    attack_task: recipes.AttackTask, examples: list[Example], tmp_path: Path
) -> None:
    leaves = own(attack_task, tmp_path, "pass", "sys.exit(0)")
    with (
        recipes.Workers(1, CONFIG) as workers,
        pytest.raises(JobError, match="SystemExit"),
    ):
        list(workers.run(leaves, examples[:2]))
