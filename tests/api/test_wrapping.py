"""Any victim as a ModelWrapper: what rbench attacks, TextAttack itself can ask and attack."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import rbench
from rbench import recipes as _ready  # noqa: F401  (before textattack is imported)
from rbench.encoders import load_victim
from rbench.errors import RbenchError

TEXTS = ["The farce was a disaster in his city.", "The film was superb."]
SAVED = Path(rbench.__file__).parent / "packaged" / "robustsentembed-mini-victim"


def test_a_saved_victim_answers_as_its_own_network() -> None:
    from textattack.models.wrappers import ModelWrapper

    wrapper = rbench.textattack_wrapper("robustsentembed-mini-victim", backend="torch", device="cpu")
    assert isinstance(wrapper, ModelWrapper)
    network, meta = load_victim(SAVED)
    with torch.inference_mode():
        rows = [
            network(
                **network.tokenizer(text, return_tensors="pt", truncation=True, max_length=meta["max_length"])
            ).logits
            for text in TEXTS
        ]
    assert torch.allclose(wrapper(TEXTS), torch.cat(rows), atol=1e-5)


def test_textattack_itself_attacks_a_function_through_it() -> None:
    from textattack import Attack
    from textattack.constraints.pre_transformation import RepeatModification
    from textattack.goal_functions import UntargetedClassification
    from textattack.search_methods import GreedySearch
    from textattack.transformations import WordDeletion

    def predict(texts: list[str]) -> list[list[float]]:
        return [[0.9, 0.1] if "disaster" in text else [0.2, 0.8] for text in texts]

    wrapper = rbench.textattack_wrapper(predict, device="cpu")
    assert torch.allclose(wrapper(TEXTS), torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
    attack = Attack(UntargetedClassification(wrapper), [RepeatModification()], WordDeletion(), GreedySearch())
    found = attack.attack(TEXTS[0], 0)
    assert type(found).__name__ == "SuccessfulAttackResult"
    assert "disaster" not in found.perturbed_text()


def test_a_run_without_such_a_victim(tmp_path: Path) -> None:
    with pytest.raises(RbenchError):
        rbench.textattack_wrapper("x", run=tmp_path)
