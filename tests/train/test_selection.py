"""Tests that the best step is kept, and that neither selection nor interruption changes the training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy.stats import spearmanr

from rbench import encoders
from rbench.config.registry import Registry
from rbench.errors import JobError
from rbench.schema import EncoderSpec, Score
from rbench.score import StsPairs
from rbench.system import checkpoints
from rbench.train import objectives
from rbench.train.contrastive import ContrastiveObjective
from rbench.train.loop import pretrain
from rbench.train.moco import MoCoObjective
from rbench.train.objectives.mlm import MaskedLanguageModelling
from rbench.train.selection import SelectionPairs, StepSelector
from tests.refusals import refusal
from tests.train import bases
from tests.train.bases import TEXTS
from tests.train.interruption import Interrupted, have_same_weights, interrupt_at, read_weights
from tests.train.selection_pairs import PAIRS, RNG, ROWS, SELECTION

NAME = "toy_validation_spearman"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bases.masked_bert(tmp_path_factory.mktemp("base"))


def selecting(objective: str, base: Path, **train: Any) -> EncoderSpec:
    return bases.spec(objective, base, **{"steps": 24, "select_by": "toy", "select_every": 4, **train})


# -------------------------------------------------------------------------------------------------- which step it is


@pytest.mark.parametrize(
    ("name", "kind"),
    [("simcse", ContrastiveObjective), pytest.param("mlm", MaskedLanguageModelling, marks=pytest.mark.nightly)],
)
def test_the_best_of_all_scored_steps_is_saved(
    name: str, kind: Any, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, dict[str, torch.Tensor]]] = []
    encode = kind.encode

    def spy(self: Any, texts: list[str]) -> Any:
        vectors = encode(self, texts)
        row = dict(zip(texts, vectors.astype(float), strict=True))
        cosines = [row[a] @ row[b] / np.linalg.norm(row[a]) / np.linalg.norm(row[b]) for a, b in ROWS]
        state = {key: value.clone() for key, value in self.kept.state_dict().items()}
        seen.append((spearmanr(cosines, PAIRS.gold).statistic, state))
        return vectors

    monkeypatch.setattr(kind, "encode", spy)
    spec = selecting(name, base, select_every=5)
    scores = pretrain(spec, base, TEXTS, tmp_path / "out", seed=0, selection=SELECTION)
    assert len(seen) == 5, "steps 5, 10, 15, 20, and 24, the last"
    best = max(range(5), key=lambda i: seen[i][0])
    assert scores[NAME] == pytest.approx(seen[best][0])
    assert scores["selected_step"] == [5, 10, 15, 20, 24][best]
    found = encoders.load(spec.model_copy(update={"train": None}), tmp_path / "out")
    state = {key.removeprefix("bert.").removeprefix("model."): value for key, value in seen[best][1].items()}
    for key, value in found.model.state_dict().items():
        assert torch.equal(value, state[key])
    # The score is of the encoder as it is saved.
    assert PAIRS.scores(found.encode)[0].value == pytest.approx(scores[NAME])


class Scripted(StsPairs):
    """Pairs whose correlation at each step is written in a script."""

    script: dict[int, float | None]
    step = 0

    def scores(self, encode: Callable[[list[str]], Any]) -> tuple[Score, Score]:
        encode(self.texts)
        return Score(name="spearman", value=self.script[self.step], n=30), Score(name="pearson", value=None, n=30)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SelectionPairs]:
    """script(values of steps 4, 8 ...) -> a Selection by these values."""

    def make(*values: float | None) -> SelectionPairs:
        pairs = Scripted(PAIRS.first, PAIRS.second, PAIRS.gold)
        object.__setattr__(pairs, "script", {4 * (i + 1): value for i, value in enumerate(values)})
        on_step_end = StepSelector.on_step_end

        def told(self: StepSelector, args: Any, state: Any, control: Any, **more: Any) -> Any:
            object.__setattr__(pairs, "step", state.global_step)
            return on_step_end(self, args, state, control, **more)

        monkeypatch.setattr(StepSelector, "on_step_end", told)
        return SelectionPairs({"toy": pairs})

    return make


@pytest.mark.parametrize(
    ("values", "patience", "step", "score", "last"),
    [
        ((0.3, 0.5, 0.4, 0.6, 0.2, 0.1), 2, 16, 0.6, 24),
        ((-0.3, -0.3, -0.3, -0.3, -0.3, -0.3), 4, 4, -0.3, 20),  # of equal steps the first; no gain in being equal
        ((None, None, 0.1, None, 0.1, 0.1), 4, 12, 0.1, 24),  # not defined is no gain
    ],
)
def test_patience_counts_scores_without_a_gain(
    values: Any,
    patience: int | None,
    step: int,
    score: float,
    last: int,
    base: Path,
    tmp_path: Path,
    script: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    scored: list[dict[str, torch.Tensor]] = []
    scores_of = ContrastiveObjective.scores

    def spy(self: Any, texts: Any) -> dict[str, float]:
        scored.append({name: value.clone() for name, value in self.encoder.model.state_dict().items()})
        return scores_of(self, texts)

    monkeypatch.setattr(ContrastiveObjective, "scores", spy)
    spec = selecting("simcse", base, patience=patience)
    scores = pretrain(
        spec,
        base,
        TEXTS,
        tmp_path / "o",
        seed=0,
        selection=script(*values),
        progress=lambda done, *_: seen.append(done),
    )
    assert (scores["selected_step"], scores[NAME], seen[-1]) == (step, score, last)
    saved = encoders.load(spec.model_copy(update={"train": None}), tmp_path / "o").model.state_dict()
    assert all(torch.equal(scored[0][name], value) for name, value in saved.items()), "scores are of what is saved"


def test_selection_does_not_change_how_training_goes(base: Path, tmp_path: Path, script: Any) -> None:
    plain = pretrain(bases.spec("simcse", base, steps=8), base, TEXTS, tmp_path / "plain", seed=0)
    spec = selecting("simcse", base, steps=8)
    selected = pretrain(spec, base, TEXTS, tmp_path / "selected", seed=0, selection=script(0.1, 0.2))
    assert have_same_weights(tmp_path / "plain", tmp_path / "selected"), "the last step is the best"
    assert {key: selected[key] for key in plain} == plain


def test_an_encoder_that_collapsed_is_an_error(base: Path, tmp_path: Path, script: Any) -> None:
    with refusal(JobError, "tiny", "toy"):
        pretrain(selecting("simcse", base), base, TEXTS, tmp_path / "o", seed=0, selection=script(*[None] * 6))
    assert not list((tmp_path / "o").rglob("*.safetensors")), "nothing is saved"


@pytest.mark.nightly
def test_the_progress_text_has_the_last_score_and_the_best(base: Path, tmp_path: Path, script: Any) -> None:
    said: list[str] = []
    selection = script(0.3, 0.51, 0.4, None, 0.2, 0.1)
    pretrain(
        selecting("simcse", base),
        base,
        TEXTS,
        tmp_path / "o",
        seed=0,
        selection=selection,
        progress=lambda done, total, text: said.append(text),
    )
    assert "toy" not in said[2]
    assert said[13].startswith("loss ") and said[13].endswith(", toy 0.400 (best 0.510 at step 8)")
    assert said[16].endswith(", toy not defined (best 0.510 at step 8)")


# ---------------------------------------------------------------------------------------------------------- resuming


@pytest.mark.parametrize(
    ("name", "stop"),
    [("mlm", 15), *(pytest.param(*one, marks=pytest.mark.nightly) for one in (("simcse", 5), ("robustsentembed", 22)))],
)
def test_a_run_interrupted_and_resumed_selects_the_same(name: str, stop: int, base: Path, tmp_path: Path) -> None:
    spec = selecting(name, base, select_every=3)
    whole = pretrain(spec, base, TEXTS, tmp_path / "whole", seed=3, selection=SELECTION)
    more = {"seed": 3, "selection": SELECTION, "checkpoints": tmp_path / "c"}
    with pytest.raises(Interrupted):
        pretrain(spec, base, TEXTS, tmp_path / "out", progress=interrupt_at(stop), **more)
    resumed = pretrain(spec, base, TEXTS, tmp_path / "out", **more)
    assert resumed == pytest.approx(whole)
    assert have_same_weights(tmp_path / "whole", tmp_path / "out")


@pytest.mark.parametrize("stop", [*(pytest.param(stop, marks=pytest.mark.nightly) for stop in (9, 13)), 18])
def test_the_best_weights_and_patience_survive_an_interruption(
    stop: int, base: Path, tmp_path: Path, script: Any
) -> None:
    spec, selection = selecting("simcse", base, patience=3), script(0.3, 0.5, 0.4, 0.45, 0.2, 0.9)
    pretrain(spec, base, TEXTS, tmp_path / "whole", seed=3, selection=selection)
    more = {"seed": 3, "selection": selection, "checkpoints": tmp_path / "c"}
    with pytest.raises(Interrupted):
        pretrain(spec, base, TEXTS, tmp_path / "out", progress=interrupt_at(stop), **more)
    last = checkpoints.last_good_checkpoint(tmp_path / "c")
    assert last is not None and json.loads((last / "selection.json").read_text())["scored"][0] == [4, 0.3]
    seen: list[int] = []
    scores = pretrain(spec, base, TEXTS, tmp_path / "out", progress=lambda done, *_: seen.append(done), **more)
    assert scores["selected_step"] == 8 and seen[-1] == 20
    assert have_same_weights(tmp_path / "whole", tmp_path / "out")


@pytest.mark.nightly
def test_a_run_that_was_over_is_not_trained_further(
    base: Path, tmp_path: Path, script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, selection = selecting("simcse", base, patience=3), script(0.3, 0.5, 0.4, 0.45, 0.2, 0.1)
    whole = pretrain(spec, base, TEXTS, tmp_path / "whole", seed=3, selection=selection)
    more = {"seed": 3, "selection": selection, "checkpoints": tmp_path / "c"}

    def killed(self: Any, folder: Path) -> None:
        raise Interrupted

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(ContrastiveObjective, "save", killed)
        pretrain(spec, base, TEXTS, tmp_path / "out", **more)
    last = checkpoints.last_good_checkpoint(tmp_path / "c")
    assert last is not None and last.name == "checkpoint-20"
    seen: list[int] = []
    again = pretrain(spec, base, TEXTS, tmp_path / "out", progress=lambda done, *_: seen.append(done), **more)
    assert not seen
    assert again == whole
    assert have_same_weights(tmp_path / "whole", tmp_path / "out")


def test_checkpoints_with_other_pairs_are_not_taken(base: Path, tmp_path: Path) -> None:
    spec = selecting("simcse", base)
    more = {"seed": 3, "checkpoints": tmp_path / "c"}
    with pytest.raises(Interrupted):
        pretrain(spec, base, TEXTS, tmp_path / "o", progress=interrupt_at(9), selection=SELECTION, **more)
    other = SelectionPairs({"toy": StsPairs(PAIRS.first, PAIRS.second, PAIRS.gold[::-1])})
    with refusal(JobError, str(tmp_path / "c")):
        pretrain(spec, base, TEXTS, tmp_path / "o", selection=other, **more)


# --------------------------------------------------------------------------------------------------------- agreements


KINDS = ("simcse", "mlm", "cline", "declutr", "adcl", "distillation")
"""Objectives that encode or keep in ways of their own; the rest is nightly."""


@pytest.mark.parametrize(
    "name",
    [
        name if name in KINDS else pytest.param(name, marks=pytest.mark.nightly)
        for name in Registry().names("objectives")
        if name not in ("flow", *bases.STEPLESS)
    ],
)
def test_every_objective_encodes_as_it_is_saved(name: str, base: Path, tmp_path: Path) -> None:
    module = objectives.find(name)
    spec = bases.spec(name, base, "mean")
    built = module.build(module.Options(**bases.OPTIONS.get(name, {})), spec, base, bases.asked(name).get("resources"))
    built.model.train()
    vectors = built.encode(TEXTS[:9])
    assert built.model.training
    built.save(tmp_path / "out")
    saved = encoders.load(spec.model_copy(update={"train": None}), tmp_path / "out")
    np.testing.assert_allclose(vectors, saved.encode(TEXTS[:9]), atol=1e-6)
    # `kept` is what is saved: weights put into it are found in the folder.
    with torch.no_grad():
        for value in built.kept.parameters():
            value.fill_(0.25)
    built.save(tmp_path / "filled")
    assert all(
        (value == 0.25).all() for value in read_weights(tmp_path / "filled").values() if value.is_floating_point()
    )
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == read_weights(tmp_path / "filled").keys()


# ------------------------------------------------------------------------------------------------------ several tasks


def test_several_tasks_count_by_the_mean_of_their_correlations() -> None:
    other = StsPairs(PAIRS.first, PAIRS.second, tuple(RNG.permutation(PAIRS.gold).tolist()))
    vectors = {text: RNG.normal(size=6) for text in (*PAIRS.first, *PAIRS.second)}

    def encode(texts: list[str]) -> Any:
        return np.array([vectors[text] for text in texts])

    cosines = [
        vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b])
        for a, b in zip(PAIRS.first, PAIRS.second, strict=True)
    ]
    slow = [spearmanr(cosines, pairs.gold).statistic for pairs in (PAIRS, other)]
    both = SelectionPairs({"a": PAIRS, "b": other}, "test")
    assert both.score(encode) == pytest.approx(sum(slow) / 2)
    assert both.score_names == ("mean_test_spearman", "selected_step") and both.called == "mean of a, b"
    assert len(both) == 60


def test_a_mean_is_not_defined_where_one_of_its_correlations_is_not() -> None:
    flat = StsPairs(PAIRS.first, PAIRS.second, (1.0,) * len(PAIRS))
    assert SelectionPairs({"a": PAIRS, "b": flat}).score(lambda texts: np.eye(len(texts)) + 0.1) is None


@pytest.mark.parametrize("objective", ["simcse", pytest.param("mlm", marks=pytest.mark.nightly)])
def test_steps_are_scored_with_the_prompt_that_similarity_has(objective: str, base: Path, tmp_path: Path) -> None:
    spec = selecting(objective, base, steps=8).model_copy(update={"prompt": {"sts": "the film was ", "unlabelled": ""}})
    scores = pretrain(spec, base, TEXTS, tmp_path / "out", seed=0, selection=SELECTION)
    untrained = spec.model_copy(update={"train": None})
    with_prompt, without = (
        PAIRS.scores(encoders.load(untrained, tmp_path / "out", kind=kind).encode)[0].value
        for kind in ("sts", "unlabelled")
    )
    assert scores[NAME] == pytest.approx(with_prompt) and with_prompt != pytest.approx(without)


@pytest.mark.nightly
def test_the_heads_of_momentum_contrast_are_those_of_the_selected_step(
    base: Path, tmp_path: Path, script: Callable[..., SelectionPairs], monkeypatch: pytest.MonkeyPatch
) -> None:
    states: dict[int, dict[str, torch.Tensor]] = {}
    built: list[MoCoObjective] = []
    score, on_step_end = MoCoObjective.scores, StepSelector.on_step_end

    def watched(self: StepSelector, args: Any, state: Any, control: Any, **more: Any) -> Any:
        model: Any = self._objective.model
        states[state.global_step] = {name: value.clone() for name, value in model.state_dict().items()}
        return on_step_end(self, args, state, control, **more)

    def scored(self: MoCoObjective, texts: Any) -> dict[str, float]:
        built.append(self)
        return score(self, texts)

    monkeypatch.setattr(StepSelector, "on_step_end", watched)
    monkeypatch.setattr(MoCoObjective, "scores", scored)
    spec, texts = selecting("btcl", base, steps=12), bases.texts_for("btcl")
    pretrain(spec, base, texts, tmp_path / "out", seed=0, selection=script(0.9, 0.5, 0.1), **bases.asked("btcl"))
    of_step_four = {name: value for name, value in states[4].items() if not name.startswith(("queue", "tally"))}
    for name, value in built[0].model.state_dict().items():
        if name in of_step_four:
            assert torch.equal(value, of_step_four[name]), name
    assert any(not torch.equal(value, states[12][name]) for name, value in of_step_four.items() if "head" in name)
