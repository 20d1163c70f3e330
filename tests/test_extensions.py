"""Modules that a user adds, from an --include folder or an installed package: found, run, and part of the key."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from tests import tiny

OBJECTIVE = '''
"""Pull everything together: a toy."""

from functools import partial

from rbench.train.options import Contrastive


class Options(Contrastive):
    """Those of contrastive objectives, and:"""

    strength: float = 1.0


def build(options, spec, base):
    from rbench.train.contrastive import ContrastiveObjective

    return ContrastiveObjective(spec, base, options, partial(losses, options))


def losses(options, model, batch):
    from rbench.train.contrast import info_nce

    _, z, z_plus = model.twice(model.embed(batch), batch.mask)
    return {"loss": options.strength * info_nce(z, [z_plus], z_plus, options.temperature)}
'''


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """An --include folder with an objective."""
    folder = tmp_path / "mine"
    (folder / "objectives").mkdir(parents=True)
    (folder / "objectives" / "toy.py").write_text(OBJECTIVE)
    return folder


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [f"the {noun} was {quality}" for noun in ("film", "plot", "book") for quality in ("good", "dull", "long")]
    (tmp_path / "my.txt").write_text("\n".join(lines) + "\n")
    return tmp_path / "my.txt"


def train(mine: Path, corpus: Path, *settings: str) -> api.Trained:
    """Two steps of the toy on the smallest base."""
    return api.train(
        "toy",
        base=str(tiny.write_bert(corpus.parent / "bert")),
        data=str(corpus),
        settings=["dropout=0.1", "batch_size=4", *settings],
        steps=2,
        options=api.Options(include=(mine,), device="cpu"),
    )


def test_an_added_objective_trains_and_edited_trains_anew(mine: Path, corpus: Path) -> None:
    first = train(mine, corpus)
    assert train(mine, corpus).weights == first.weights, "nothing changed: the cache has it"
    file = mine / "objectives" / "toy.py"
    file.write_text(OBJECTIVE.replace("options.strength * info_nce", "2 * options.strength * info_nce"))
    edited = train(mine, corpus)
    assert edited.weights != first.weights
    (loss,) = (score.value for score in first.record.scores if score.name == "loss")
    (doubled,) = (score.value for score in edited.record.scores if score.name == "loss")
    assert doubled == pytest.approx(2 * loss, rel=0.05)
