"""Tests the health of whole trainings: that measuring changes nothing, the series, and each flag."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from rbench import api
from rbench.plan.prepare import Options
from rbench.schema import EncoderSpec, Health
from rbench.system.progress import SilentProgress
from rbench.train import health, objectives
from rbench.train.contrastive import ContrastiveObjective
from rbench.train.health import due
from rbench.train.loop import pretrain
from rbench.train.options import Contrastive
from tests.train import bases
from tests.train.bases import TEXTS
from tests.train.interruption import Interrupted, interrupt_at
from tests.train.selection_pairs import PAIRS, SELECTION


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bases.masked_bert(tmp_path_factory.mktemp("base"))


def run(name: str, base: Path, out: Path, *, options: Any = None, **more: Any) -> tuple[Health, Any]:
    """Train; returns the health and the objective as the training left it."""
    module: Any = objectives.find(name)
    make, built = module.build, list[Any]()
    train = {key: more.pop(key) for key in ("steps", "batch_size", "learning_rate") if key in more}

    def build(*args: Any, **kinds: Any) -> Any:
        built.append(make(*args, **kinds))
        return built[-1]

    spec = bases.spec(name, base, options=options or {}, **train)
    texts = more.pop("texts", None) or bases.texts_for(name)
    told: list[Health] = []
    given = {"seed": 0, "health": told.append, **bases.asked(name), **more}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "build", build)
        pretrain(spec, base, texts, out, **given)
    (measured,) = told
    return measured, built[-1]


def values(measured: Health, name: str) -> list[float]:
    return [point.values[name] for point in measured.series if name in point.values]


def flagged(measured: Health) -> set[str]:
    return {raised.flag for raised in measured.flags}


@contextmanager
def patched(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for name, value in changes.items():
            patch.setattr(health, name, value)
        yield


# ------------------------------------------------------------------------------------------------------- the series


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (1, {1}),
        (2, {1, 2}),
        (8, {1, 8}),
        (60, {1, 60}),
        (90, {1, 45, 90}),
        (301, {1, 34, 68, 101, 134, 168, 201, 234, 268, 301}),
    ],
)
def test_the_first_and_the_last_step_are_measured_and_some_between(steps: int, expected: set[int]) -> None:
    assert due(steps) == expected and len(due(10**6)) == 10


NO_STEPS: Any = lambda steps: frozenset()  # noqa: E731
EACH_STEP: Any = lambda steps: frozenset(range(1, steps + 1))  # noqa: E731


@pytest.mark.parametrize(
    ("name", "options"),
    [
        # On every push the one with a discriminator and a table, and one without the loop.
        pytest.param("simcse", {}, marks=pytest.mark.nightly),
        pytest.param("uscal", {}, marks=pytest.mark.nightly),
        ("robustsentembed", {"detection": "mean"}),
        pytest.param("vadvcse", {"lam": 0.1}, marks=pytest.mark.nightly),
        pytest.param("consert", {"views": ("adversarial", "shuffle"), "dropout": 0.1}, marks=pytest.mark.nightly),
        pytest.param("adcl", {}, marks=pytest.mark.nightly),
        pytest.param("cline", {}, marks=pytest.mark.nightly),
        ("flow", {}),
    ],
)
def test_measuring_changes_nothing(
    name: str, options: Any, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = []
    for which in (NO_STEPS, EACH_STEP):
        with patched(monkeypatch, due=which):
            measured, objective = run(name, base, tmp_path / "out", options=options, steps=3)
        gradients = [x.grad for x in objective.model.parameters() if x.grad is not None]
        ends.append((objective.model.state_dict(), gradients, torch.rand(3)))
    assert len(measured.series) == 3
    (weights, grads, drawn), (theirs, others, again) = ends
    assert weights.keys() == theirs.keys() and all(torch.equal(weights[key], theirs[key]) for key in weights)
    assert len(grads) == len(others) and all(torch.equal(a, b) for a, b in zip(grads, others, strict=True))
    assert torch.equal(drawn, again)


@pytest.mark.parametrize("name", ["robustsentembed", pytest.param("btcl", marks=pytest.mark.nightly)])
def test_an_interrupted_run_has_the_series_of_a_whole_one(
    name: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with patched(monkeypatch, STEPS_PER_POINT=3):
        whole, _ = run(name, base, tmp_path / "whole", steps=9)
        assert len(whole.series) == 3
        more = {"steps": 9, "checkpoints": tmp_path / "c"}
        with pytest.raises(Interrupted):
            run(name, base, tmp_path / "out", progress=interrupt_at(6), **more)
        resumed, _ = run(name, base, tmp_path / "out", **more)
    assert resumed == whole


@pytest.mark.nightly
def test_a_training_that_was_complete_when_it_was_interrupted_has_its_series(base: Path, tmp_path: Path) -> None:
    more = {"steps": 4, "checkpoints": tmp_path / "c"}
    whole, _ = run("uscal", base, tmp_path / "whole", steps=4)
    with pytest.raises(Interrupted):
        run("uscal", base, tmp_path / "out", health=stopped, **more)
    assert run("uscal", base, tmp_path / "out", **more)[0] == whole


def stopped(measured: Health) -> None:
    raise Interrupted


def test_a_training_that_stops_early_is_measured_where_it_stops(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(SELECTION), "score", lambda self, encode: next(scores))
    scores = iter([0.5, 0.4, 0.3, 0.2])
    train = {"steps": 24, "select_by": "toy", "select_every": 4, "patience": 2}
    spec, told = bases.spec("uscal", base, **train), []
    pretrain(spec, base, TEXTS, tmp_path / "o", seed=0, selection=type(SELECTION)({"toy": PAIRS}), health=told.append)
    assert [point.step for point in told[0].series] == [1, 12]
    assert values(told[0], "top-1") and len(values(told[0], "loss")) == 1


def test_the_held_out_texts_are_probed_and_training_texts_where_these_are_few(base: Path, tmp_path: Path) -> None:
    many = [f"{text} {' '.join(TEXTS[i])}" for i, text in enumerate(TEXTS)] * 10
    few, _ = run("simcse", base, tmp_path / "a", steps=1)
    enough, _ = run("simcse", base, tmp_path / "b", steps=1, texts=many)
    assert (values(few, "texts"), values(few, "texts held out")) == ([8], [1])
    assert values(enough, "texts") == values(enough, "texts held out") == [8]


def test_an_objective_without_steps_has_an_empty_series(base: Path, tmp_path: Path) -> None:
    told: list[Health] = []
    pretrain(bases.fitted_spec("whitening", base), base, TEXTS, tmp_path / "out", seed=0, health=told.append)
    assert told == [Health()]


# --------------------------------------------------------------------------------------------------- terms of the loss


def test_shares_are_of_the_gradients_with_respect_to_the_kept_weights() -> None:
    kept, head = torch.nn.Parameter(torch.tensor([3.0, 4.0])), torch.nn.Parameter(torch.ones(()))
    terms = {
        "first": (kept * torch.tensor([3.0, 4.0])).sum() * head,  # gradient (3, 4): norm 5
        "second": -15 * kept[0] + 100 * head,  # norm 15
        "third": 7 * head,
        "counted": torch.tensor(2.0),
    }
    measured = health._measure_terms({"loss": terms["first"] + terms["second"], **terms}, [kept])
    shares = {name: value for name, value in measured.items() if name.endswith(" share")}
    assert shares == {"first share": 0.25, "second share": 0.75, "third share": 0.0}
    assert measured["counted"] == 2 and measured["loss"] == pytest.approx(25 - 45 + 100)
    assert kept.grad is None


def test_the_series_has_terms_and_shares_of_the_training_batch(base: Path, tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []
    see = health.HealthObserver.see

    def spy(self: Any, step: int, outputs: Any) -> None:
        weights = list(self._objective.kept.parameters())
        norms = {}
        for name in ("robust", "adversarial", "detection"):
            gradients = torch.autograd.grad(outputs[name], weights, retain_graph=True, allow_unused=True)
            norms[name] = float(torch.cat([g.flatten() for g in gradients if g is not None]).norm())
        seen.append({name: norm / sum(norms.values()) for name, norm in norms.items()})
        see(self, step, outputs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health.HealthObserver, "see", spy)
        measured, _ = run("robustsentembed", base, tmp_path / "out", steps=2)
    for name in ("robust", "adversarial", "detection"):
        assert values(measured, f"{name} share") == pytest.approx([shares[name] for shares in seen], rel=1e-4)
    parts = zip(*(values(measured, name) for name in ("robust", "adversarial", "detection")), strict=True)
    assert values(measured, "loss") == pytest.approx([sum(part) for part in parts])


def test_an_objective_of_a_users_own_adds_values_by_its_probe(base: Path, tmp_path: Path) -> None:
    class Mine(ContrastiveObjective):
        def probe(self, batch: dict[str, Any]) -> dict[str, float]:
            more = {"mine": float(len(batch["input_ids"])), "undefined": float("nan"), "dead words": 1.0}
            return {**super().probe(batch), **more}

    def losses(model: Any, batch: Any) -> Any:
        _, z, z_plus = model.twice(model.embed(batch), batch.mask)
        near, far = (z - z_plus).square().mean(), -z.std()
        return {"loss": near + far, "near": near, "far": far}

    class MyTraining(objectives.TrainingObjective[Contrastive]):
        def build(self, options: Any, spec: EncoderSpec, base: Any, resources: Any) -> Mine:
            return Mine(spec, base, options, losses)

    own = MyTraining()
    told: list[Health] = []
    pretrain(bases.spec("simcse", base), base, TEXTS, tmp_path / "o", seed=0, module=own, health=told.append)
    assert values(told[0], "mine") == [8, 8] and not values(told[0], "undefined")
    near, far = values(told[0], "near share"), values(told[0], "far share")
    assert [x + y for x, y in zip(near, far, strict=True)] == pytest.approx([1, 1])
    assert values(told[0], "top-1") and "perturbation dead" in flagged(told[0])


# ------------------------------------------------------------------------------------------------------------ flags
# Their bounds are tested in test_health_flags; of whole trainings that raise them, two are everyday tests.

STILL = {"steps": 4, "batch_size": 32, "learning_rate": 1e-5}


@pytest.mark.nightly
def test_views_that_are_almost_equal_saturate_a_loss_of_low_temperature(base: Path, tmp_path: Path) -> None:
    sick, _ = run("simcse", base, tmp_path / "a", options={"dropout": 1e-5, "temperature": 2e-5}, **STILL)
    well, _ = run("simcse", base, tmp_path / "b", options={"dropout": 1e-5, "temperature": 0.001}, **STILL)
    assert flagged(sick) == {"saturated"} and flagged(well) == set()


@pytest.mark.parametrize("name", ["uscal", pytest.param("robustembed", marks=pytest.mark.nightly)])
@pytest.mark.nightly
def test_a_tiny_delta_is_no_adversary(name: str, base: Path, tmp_path: Path) -> None:
    tiny, large = {"epsilon": 1e-5}, {"epsilon": 3.0, "norm": "l2"}
    if name == "robustembed":
        tiny, large = tiny | {"beta": 1e-5, "sigma": 0.0}, large | {"beta": 0.3, "alpha": 1.0}
    sick, _ = run(name, base, tmp_path / "a", options=tiny, **STILL)
    well, _ = run(name, base, tmp_path / "b", options=large, **STILL)
    assert "no adversary" in flagged(sick) and "no adversary" not in flagged(well)
    assert max(values(sick, "delta ratio")) < 1e-4 and min(values(well, "delta ratio")) > 0.1
    assert max(values(sick, "rise")) < 0.01 < 0.1 < min(values(well, "rise"))


def test_a_delta_in_a_random_direction_is_no_adversary(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rbench.train import contrastive

    fgm = contrastive.fgm
    monkeypatch.setattr(contrastive, "fgm", lambda g, *more: fgm(torch.randn_like(g) * (g != 0), *more))
    sick, _ = run("uscal", base, tmp_path / "a", options={"epsilon": 3.0}, **STILL)
    (raised,) = [raised for raised in sick.flags if raised.flag == "no adversary"]
    assert "a random perturbation of its size" in raised.because


@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param("btcl", {"queue": 64, "similarity": "cosine"}, marks=pytest.mark.nightly), ("simcse", {})],
)
def test_a_head_that_dropout_blinds_has_not_learned(name: str, options: Any, base: Path, tmp_path: Path) -> None:
    sick, _ = run(name, base, tmp_path / "a", options={**options, "dropout": 0.5}, **STILL)
    well, _ = run(name, base, tmp_path / "b", options={**options, "dropout": 1e-4}, **STILL)
    assert "head did not learn" in flagged(sick) and flagged(well) == set()


@pytest.mark.nightly
def test_scaling_by_the_perturbation_itself_lets_it_die(base: Path, tmp_path: Path) -> None:
    sick, _ = run("robustsentembed", base, tmp_path / "a", options={"scaling": "perturbation"}, batch_size=16)
    well, _ = run("robustsentembed", base, tmp_path / "b", options={"scaling": "gradient"}, batch_size=16)
    assert values(sick, "dead words")[0] == 0, "it lives at first"
    assert "perturbation dead" in flagged(sick) and "perturbation dead" not in flagged(well)


def test_the_record_holds_the_health_and_every_run_says_its_flags(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Heard(SilentProgress):
        def __init__(self) -> None:
            self.notes: list[str] = []

        def note(self, text: str) -> None:
            self.notes.append(text)

    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").write_text("\n".join(TEXTS) + "\n")
    more: Any = {"base": str(base), "data": "my.txt", "steps": 2, "settings": ["dropout=0.5", "batch_size=16"]}
    records = []
    for _ in range(2):  # the second finds the weights in the cache
        heard = Heard()
        trained = api.train("simcse", name="e", out=None, options=Options(device="cpu"), progress=heard, **more)
        records.append(trained.record)
        (said,) = [note for note in heard.notes if "flagged" in note]
        assert said.startswith("pretrain/e/seed0 is flagged `head did not learn`: top-1 ") and "at step 2 of 2" in said
    first, second = (record.health for record in records)
    assert first is not None and first == second and len(first.series) == 2
    assert "**head did not learn**" in (trained.weights / "README.md").read_text()
