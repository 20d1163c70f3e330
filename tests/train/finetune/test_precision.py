"""Fine-tuning in bf16: the network computes in it while it is trained, and weights and the victim stay in fp32."""

from __future__ import annotations

import torch

from rbench.schema import Training
from rbench.train.finetune import Finetuned, clean
from tests import tiny
from tests.recipes import substitution_toy as toy
from tests.train.finetune.toy_data import make_toy_data

SHORT = Training(epochs=2, learning_rate=3e-3, batch_size=16)


def run(training: Training) -> tuple[Finetuned, set[tuple[bool, torch.dtype]]]:
    """The fine-tuned victim, and of each layer's outputs whether it was trained, and their type."""
    encoder = toy.classifier().encoder
    seen: set[tuple[bool, torch.dtype]] = set()
    layer = next(module for module in encoder.modules() if isinstance(module, torch.nn.Linear))
    layer.register_forward_hook(lambda module, inputs, output: seen.add((module.training, output.dtype)))
    return clean.CleanStrategy().run(clean.Options(), tiny.context(encoder, make_toy_data(48), training)), seen


def test_the_network_is_trained_in_bf16_and_the_victim_answers_in_fp32() -> None:
    (plain, _), plain_types = run(SHORT)
    (mixed, _), mixed_types = run(SHORT.model_copy(update={"precision": "bf16"}))
    assert plain_types == {(True, torch.float32), (False, torch.float32)}
    assert (True, torch.bfloat16) in mixed_types
    assert {weight.dtype for weight in mixed.parameters()} == {torch.float32}
    assert not torch.equal(mixed.head.weight, plain.head.weight)
    torch.testing.assert_close(mixed.head.weight, plain.head.weight, atol=0.02, rtol=0.1)
    mixed_types.clear()
    with torch.no_grad():
        mixed(**mixed.tokenizer("good film", return_tensors="pt"))
    assert mixed_types == {(False, torch.float32)}
