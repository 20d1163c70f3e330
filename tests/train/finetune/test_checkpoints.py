"""Tests checkpoints of fine-tunings: an interrupted one goes on, with the same bits as one without a break."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from rbench.encoders.sentence import SentenceEncoder
from rbench.errors import JobError
from rbench.schema import Training
from rbench.tasks import Example
from rbench.train.finetune import FinetuneContext, Finetuned, _tuning, adversarial, clean, freelb
from tests.recipes import substitution_toy as toy
from tests.refusals import refusal
from tests.train.finetune.toy_data import make_toy_data

TRAINING = Training(epochs=3, learning_rate=1e-3, batch_size=8)
STEPS = 4  # of an epoch: 30 examples in batches of 8
STRATEGIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "clean": (clean.CleanStrategy(), {}),
    "freelb": (freelb.FreeLBStrategy(), {"adv_steps": 2}),
    "adversarial": (adversarial.AdversarialStrategy(), {}),
    "adversarial, last": (adversarial.AdversarialStrategy(), {"keep": "last", "until": "budget"}),
}


class Interrupted(Exception):
    """Stands in for Ctrl-C."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fine-tunings in tests take seconds, so their checkpoints are complete from the first epoch."""
    monkeypatch.setattr(_tuning, "AFTER", 0.0)


def encoder(seed: int = 0) -> SentenceEncoder:
    """The toy world's, with dropout: it draws from the generators whose states a checkpoint has to hold."""
    made = toy.classifier("bert", seed=seed).encoder
    for module in made.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.2
    return made


def context(folder: Path | None, told: list[int] | None = None, stop: int = 0, **more: Any) -> FinetuneContext:
    """What a strategy is given; its progress notes each step in `told` and interrupts at the step `stop`."""

    def progress(done: int, total: int, text: str) -> None:
        if told is not None and (not told or told[-1] != done):
            told.append(done)
        if stop and done == stop:
            raise Interrupted

    given = FinetuneContext(
        encoder(),
        make_toy_data(30),
        TRAINING,
        seed=0,
        device="cpu",
        progress=progress,
        resources=toy.resources("bert"),
        checkpoints=folder,
    )
    return replace(given, **more)


def run(name: str, given: FinetuneContext) -> Finetuned:
    module, options = STRATEGIES[name]
    found: Finetuned = module.run(module.Options(**options), given)
    return found


def same(first: Finetuned, second: Finetuned) -> bool:
    ours, theirs = first.victim.state_dict(), second.victim.state_dict()
    return first.scores == second.scores and all(torch.equal(ours[key], theirs[key]) for key in ours)


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.rpartition("-")[2]) for path in folder.glob("checkpoint-*"))


@pytest.mark.parametrize(
    ("name", "grouped"),
    [
        ("freelb", True),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in (("clean", False), ("adversarial", True), ("adversarial, last", False))
        ),
    ],
)
def test_an_interrupted_fine_tuning_goes_on_and_ends_with_the_same_bits(
    name: str, grouped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"training": TRAINING.model_copy(update={"group_by_length": grouped})}
    whole = run(name, context(None, **more))
    last = (4 if name.startswith("adversarial") else 3) * STEPS
    with pytest.raises(Interrupted):
        run(name, context(tmp_path, stop=2 * STEPS + 1, **more))
    torch.rand(7)  # what happens in between does not matter
    told: list[int] = []
    with monkeypatch.context() as patched, pytest.raises(Interrupted):
        patched.setattr(transformers.Trainer, "log", log_until_the_end)
        run(name, context(tmp_path, told, **more))
    assert told == list(range(2 * STEPS + 1, last + 1)), "it went on, and did not begin again"
    assert max(steps(tmp_path)) == last and len(steps(tmp_path)) <= 2
    torch.rand(7)
    over = run(name, context(tmp_path, told := [], **more))
    assert told == [last] and same(whole, over), "no step is left, but the figures of the last ones are there"


LOG = transformers.Trainer.log


def log_until_the_end(self: transformers.Trainer, logs: dict[str, float], *args: Any, **more: Any) -> None:
    """Interrupt when the Trainer reports that all steps are done."""
    if "train_runtime" in logs:
        raise Interrupted
    LOG(self, logs, *args, **more)


def test_the_best_epoch_may_lie_before_the_interruption(tmp_path: Path) -> None:
    """With a rate that spoils the model the first epoch is the best, and a moved cache still has it."""
    more = {"training": Training(epochs=3, learning_rate=0.5, batch_size=8)}
    whole = run("clean", context(None, **more))
    assert whole.scores["best_epoch"] == 1
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path / "c", stop=2 * STEPS + 1, **more))
    assert steps(tmp_path / "c") == [STEPS, 2 * STEPS], "the best and the last"
    shutil.move(tmp_path / "c", tmp_path / "moved")
    assert same(whole, run("clean", context(tmp_path / "moved", **more)))
    shutil.rmtree(tmp_path / "moved")
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path / "c", stop=2 * STEPS + 1, **more))
    shutil.rmtree(tmp_path / "c" / f"checkpoint-{STEPS}")
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path / "c", stop=1, **more))
    assert steps(tmp_path / "c") == [], "without the best weights so far it begins again"


@pytest.mark.parametrize("file", ["trainer_state.json", "rng_state.pth"])
def test_a_checkpoint_that_was_not_finished_is_not_gone_on_from(file: str, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path, stop=STEPS + 1))
    for folder in tmp_path.glob("checkpoint-*"):
        (folder / file).unlink()
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path, stop=1))
    assert steps(tmp_path) == []


def reworded(found: Any) -> Any:
    """The same rows, with one word more in the first text of the training split."""
    first, *rest = found.split("train")
    rows = [Example(id=first.id, texts=(f"{first.texts[0]} film",), label=first.label), *rest]
    return SimpleNamespace(spec=found.spec, split=lambda name: rows if name == "train" else found.split(name))


@pytest.mark.nightly
def test_a_checkpoint_whose_figures_cannot_be_read_is_not_gone_on_from(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run("freelb", context(tmp_path, stop=STEPS + 1))
    (file,) = tmp_path.glob("checkpoint-*/trainer_state.json")
    state = json.loads(file.read_text())
    state["stateful_callbacks"]["Checkpoints"]["attributes"]["tally"] = None
    file.write_text(json.dumps(state))
    with pytest.raises(Interrupted):
        run("freelb", context(tmp_path, stop=1))
    assert steps(tmp_path) == []


def test_a_fingerprint_holds_all_that_a_training_begins_with() -> None:
    weights, rows = {"a": torch.ones(2)}, [{"input_ids": [1, 2], "labels": 0}]
    given: list[Any] = [weights, rows, TRAINING, 0, 1, "best"]
    others: list[tuple[int, Any]] = [
        (0, {"a": torch.zeros(2)}),
        (0, {"b": torch.ones(2)}),
        (1, [{"input_ids": [1, 3], "labels": 0}]),
        (1, [{"input_ids": [1, 2], "labels": 1}]),
        (1, [*rows, *rows]),
        (2, TRAINING.model_copy(update={"epochs": 4})),
        (3, 1),
        (4, 2),
        (5, "last"),
    ]
    changed = [[*given[:place], value, *given[place + 1 :]] for place, value in others]
    assert len({_tuning.training_fingerprint(*one) for one in [given, [*given], *changed]}) == 1 + len(changed)


def test_checkpoints_of_another_fine_tuning_are_not_gone_on_from(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [
        {"data": reworded(make_toy_data(30))},
        {"encoder": encoder(seed=1)},
    ]
    for other in others:
        with pytest.raises(Interrupted):
            run("clean", context(tmp_path, stop=STEPS + 1))
        assert steps(tmp_path) == [STEPS]
        with pytest.raises(Interrupted):
            run("clean", context(tmp_path, stop=1, **other))
        assert steps(tmp_path) == []


def test_a_short_fine_tuning_writes_no_optimizer_and_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_tuning, "AFTER", 3600.0)
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path, stop=STEPS + 1))
    assert steps(tmp_path) == [STEPS] and not list(tmp_path.rglob("optimizer.pt"))
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path, stop=1))
    assert steps(tmp_path) == []


@pytest.mark.nightly
def test_weights_of_which_none_are_chosen_are_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tuning, "AFTER", 3600.0)
    with pytest.raises(Interrupted):
        run("adversarial, last", context(tmp_path, stop=3 * STEPS + 1))
    assert steps(tmp_path) == []


def test_what_goes_on_keeps_complete_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has just begun, but hours may lie before it."""
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path, stop=STEPS + 1))
    monkeypatch.setattr(_tuning, "AFTER", 3600.0)
    with pytest.raises(Interrupted):
        run("clean", context(tmp_path, stop=2 * STEPS + 1))
    assert (tmp_path / f"checkpoint-{2 * STEPS}" / "optimizer.pt").is_file()


def test_inputs_are_looked_at_before_each_checkpoint(tmp_path: Path) -> None:
    asked: list[list[int]] = []

    def unchanged() -> None:
        asked.append(steps(tmp_path))
        if len(asked) == 2:
            raise JobError("it has changed")

    with refusal(JobError, "it has changed"):
        run("clean", context(tmp_path, unchanged=unchanged))
    assert asked == [[], [STEPS]] and steps(tmp_path) == [STEPS]
