"""Fine-tuning in bf16: the network computes in it while it is trained, and weights and the victim stay in fp32."""

from __future__ import annotations

import pytest
import torch

from rbench.schema import Choice, EncoderSpec, FinetuneJob, Job, Plan, Training
from rbench.tables.for_people import _precision_note
from rbench.train.finetune import Finetuned, FinetuneStrategy, adversarial, clean, freelb
from tests import tiny
from tests.recipes import substitution_toy as toy
from tests.tables.conftest import TASKS, make_suite
from tests.train.finetune.toy_data import make_toy_data

SHORT = Training(epochs=2, learning_rate=3e-3, batch_size=16)
IN_BF16 = SHORT.model_copy(update={"precision": "bf16"})


def run(training: Training, strategy: FinetuneStrategy) -> tuple[Finetuned, set[tuple[bool, torch.dtype]]]:
    """The fine-tuned victim, and of the outputs of a layer whether it was in training, and their type."""
    encoder = toy.classifier().encoder
    seen: set[tuple[bool, torch.dtype]] = set()
    layer = next(module for module in encoder.modules() if isinstance(module, torch.nn.Linear))
    layer.register_forward_hook(lambda module, inputs, output: seen.add((module.training, output.dtype)))
    context = tiny.context(encoder, make_toy_data(48), training, resources=toy.resources())
    return strategy.run(type(strategy).Options(), context), seen


@pytest.mark.parametrize(
    "strategy",
    [clean.CleanStrategy(), freelb.FreeLBStrategy(), adversarial.AdversarialStrategy()],
    ids=lambda s: s.short,
)
def test_the_network_is_trained_in_bf16_and_the_victim_answers_in_fp32(strategy: FinetuneStrategy) -> None:
    (mixed, _), types = run(IN_BF16, strategy)
    assert (True, torch.bfloat16) in types
    assert {weight.dtype for weight in mixed.parameters()} == {torch.float32}
    types.clear()
    with torch.no_grad():
        mixed(**mixed.tokenizer("good film", return_tensors="pt"))
    assert types == {(False, torch.float32)}


def test_it_ends_near_the_weights_of_fp32() -> None:
    (plain, _), types = run(SHORT, clean.CleanStrategy())
    (mixed, _), _ = run(IN_BF16, clean.CleanStrategy())
    assert {dtype for _, dtype in types} == {torch.float32}
    assert not torch.equal(mixed.head.weight, plain.head.weight)
    torch.testing.assert_close(mixed.head.weight, plain.head.weight, atol=0.02, rtol=0.1)


@pytest.mark.parametrize(
    ("training", "options", "says"), [(SHORT, {}, False), (IN_BF16, {}, True), (IN_BF16, {"precision": "bf16"}, False)]
)
def test_tables_say_it_where_no_label_does(training: Training, options: dict[str, str], says: bool) -> None:
    spec = FinetuneJob(
        encoder=EncoderSpec(name="e", base="e"),
        strategy=Choice(name="clean", options=options),
        task=TASKS["mr"],
        data_fingerprint="d",
        training=training,
    )
    plan = Plan(suite=make_suite(), jobs=(Job.make(spec, ("e", "mr", "clean"), {}, 0),))
    notes = _precision_note(plan)
    assert ("bf16" in str(notes) and "mr" in str(notes)) is says
