"""Tests adversarial fine-tuning: it adds robustness, follows its formula, and keeps to its budgets and epochs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from pydantic import ValidationError

from rbench.encoders.classifier import EncoderClassifier
from rbench.schema import Training
from rbench.tasks import Example
from rbench.train.finetune import FinetuneContext, adversarial, clean, random_substitutions
from rbench.train.finetune._adversarial_trainer import AdversarialStats, AdversarialTrainer
from rbench.train.finetune._data import encode, make_collator
from rbench.train.finetune._options import AdversarialTuningOptions, RandomTuningOptions
from rbench.words.substitution.batched import BatchedGeometry, SearchTarget, SubstitutedText, at_most
from tests import tiny
from tests.recipes import substitution_toy as toy
from tests.train.finetune.toy_data import PREMISE, make_toy_data

NOTHING = "the and a the and a the"
"""Stop words alone: nothing can be replaced."""


def run(found: Any, training: Training, *, seed: int = 0, kind: str = "bert", told: list[str] | None = None, **options):
    context = FinetuneContext(
        toy.classifier(kind, seed=seed).encoder,
        found,
        training,
        seed=seed,
        device="cpu",
        progress=lambda done, total, text: (told if told is not None else []).append(text),
        resources=toy.resources(kind),
    )
    return adversarial.AdversarialStrategy().run(AdversarialTuningOptions(**options), context)


def search(victim: EncoderClassifier, examples: list[Example], most: int = 10, **options: Any) -> list[SubstitutedText]:
    """The search with plain cross-entropy, to the end of the budget."""
    labels = torch.tensor([example.label for example in examples])
    return BatchedGeometry.of(toy.resources(), candidates=50, min_cosine=0.5)(
        [example.texts for example in examples],
        SearchTarget(
            victim.encoder,
            lambda z, rows: torch.nn.functional.cross_entropy(victim.head(z), labels[rows], reduction="none"),
            max_length=64,
        ),
        max_words=at_most(most, 0.4),
        **options,
    )


def accuracy(victim: EncoderClassifier, texts: list[tuple[str, ...]], examples: list[Example]) -> float:
    with torch.no_grad():
        found = [int(victim(**victim.tokenizer(*text, return_tensors="pt")).logits.argmax()) for text in texts]
    return float(np.mean([k == example.label for k, example in zip(found, examples, strict=True)]))


@pytest.mark.nightly  # the formula of a step, below, is an everyday test
def test_it_withstands_the_search_better_than_clean_fine_tuning() -> None:
    found, training = make_toy_data(160, test=30), Training(epochs=3, learning_rate=3e-3, batch_size=32)
    longer, tests = training.model_copy(update={"epochs": 4}), found.split("test")
    plain, _ = clean.CleanStrategy().run(clean.Options(), tiny.context(toy.classifier().encoder, found, longer))
    hard, _ = run(found, training)
    assert not hard.training
    kept = [accuracy(v, [e.texts for e in tests], tests) for v in (plain, hard)]
    under = [accuracy(v, [made.texts for made in search(v, tests)], tests) for v in (plain, hard)]
    assert kept[1] > kept[0] - 0.05
    assert under[1] > under[0] + 0.2


def test_pairs_and_other_tokenizers_are_hardened_too() -> None:
    found = make_toy_data(8, pairs=True)
    victim, scores = run(found, SHORT, kind="roberta", epochs=1)
    assert 0 < scores["words_replaced"] <= 0.4
    assert not torch.equal(victim.head.weight, before(found).head.weight)


# ---------------------------------------------------------------------------------------------------- one step


def before(found: Any, max_length: int = 128) -> EncoderClassifier:
    """The victim as `run` begins with it."""
    encoder = toy.classifier().encoder
    transformers.set_seed(0)
    return EncoderClassifier(encoder, len(found.spec.labels), max_length=max_length)


def make_trainer(
    victim: EncoderClassifier,
    found: Any,
    folder: str,
    strategy: Any = adversarial.AdversarialStrategy,
    **options: Any,
) -> AdversarialTrainer:
    """The Trainer whose steps are of all training examples as one batch."""
    chosen = strategy.Options(**options)
    return AdversarialTrainer(
        geometry=BatchedGeometry.of(toy.resources(), candidates=50, min_cosine=0.5),
        examples=found.split("train"),
        options=chosen,
        fixed=chosen.protected(found.spec),
        tally=AdversarialStats(),
        model=victim,
        args=transformers.TrainingArguments(
            folder, report_to=[], use_cpu=True, remove_unused_columns=False, per_device_train_batch_size=1000
        ),
        train_dataset=encode(found.split("train"), victim.tokenizer, victim.max_length),
        data_collator=make_collator(victim.tokenizer),
    )


def take_step(trainer: AdversarialTrainer, epoch: float) -> float:
    trainer.state.epoch, trainer.current_gradient_accumulation_steps = epoch, 1
    (batch,) = trainer.get_train_dataloader()
    return float(trainer.training_step(trainer.model, batch))


def step(
    victim: EncoderClassifier, found: Any, epoch: float, folder: str, *strategy: Any, **options: Any
) -> tuple[float, AdversarialStats]:
    """The loss of one step on all training examples; gradients are in the victim's parameters."""
    trainer = make_trainer(victim, found, folder, *strategy, **options)
    return take_step(trainer, epoch), trainer.tally


def mean_loss(victim: EncoderClassifier, texts: list[tuple[str, ...]], labels: list[int]) -> torch.Tensor:
    losses = [
        torch.nn.functional.cross_entropy(
            victim(**victim.tokenizer(*text, return_tensors="pt")).logits, torch.tensor([label])
        )
        for text, label in zip(texts, labels, strict=True)
    ]
    return torch.stack(losses).mean()


@pytest.mark.parametrize(("epoch", "pairs"), [(0.9, False), (1.0, False), (1.5, True)])
def test_a_step_is_the_mean_loss_over_clean_and_adversarial_texts(tmp_path: Path, epoch: float, pairs: bool) -> None:
    found = make_toy_data(8, pairs=pairs)
    victim, slow = before(found), before(found).eval()
    loss, tally = step(victim, found, epoch, str(tmp_path), until="budget", max_words=2)
    examples = found.split("train")
    made = search(slow, examples, most=2, fixed=(0,) if pairs else ()) if epoch >= 1 else []
    texts, labels = [e.texts for e in examples] + [m.texts for m in made], [e.label for e in examples]
    expected = mean_loss(slow, texts, labels if not made else labels * 2)
    expected.backward()
    expected = expected.detach()
    assert loss == pytest.approx(float(expected), rel=1e-5)
    for mine, theirs in zip(victim.parameters(), slow.parameters(), strict=True):
        assert torch.allclose(mine.grad, theirs.grad, rtol=1e-3, atol=1e-6)
    assert tally.texts == tally.searched == len(made)
    if made:
        assert all(len(m.substitutions) == 2 for m in made)
        assert all(m.texts[0] == PREMISE for m in made) or not pairs
        wrong = [accuracy(slow, [m.texts], [e]) == 0 for m, e in zip(made, examples, strict=True)]
        shares = [2 / m.num_words for m in made]
        counts = {"changed_share": 1.0, "searched_texts": 8.0, "adversarial_texts": 8.0}
        assert tally.scores() == pytest.approx({"words_replaced": np.mean(shares), "fooled": np.mean(wrong), **counts})


@pytest.mark.parametrize("direction", ["gradient", pytest.param("deepfool", marks=pytest.mark.nightly)])
def test_only_texts_that_the_search_changed_are_added(tmp_path: Path, direction: str) -> None:
    """Every third text is one of stop words, so that nothing in it can be replaced."""
    found = make_toy_data(9)
    rows = found.split("train")
    rows[::3] = [row._replace(texts=(NOTHING,)) for row in rows[::3]]
    victim, slow = before(found), before(found).eval()
    loss, tally = step(victim, found, 1.0, str(tmp_path), until="budget", max_words=2, direction=direction)
    examples = found.split("train")
    changed = [example for k, example in enumerate(examples) if k % 3]
    made = search(slow, changed, most=2)  # with two labels both directions are one
    assert all(one.texts != example.texts for one, example in zip(made, changed, strict=True))
    texts = [e.texts for e in examples] + [one.texts for one in made]
    expected = mean_loss(slow, texts, [e.label for e in (*examples, *changed)]).detach()
    assert loss == pytest.approx(float(expected), rel=1e-5)
    wrong = [accuracy(slow, [one.texts], [e]) == 0 for one, e in zip(made, changed, strict=True)]
    assert tally.scores() == pytest.approx(
        {
            "changed_share": 6 / 9,
            "searched_texts": 9.0,
            "adversarial_texts": 6.0,
            "words_replaced": np.mean([2 / one.num_words for one in made]),
            "fooled": np.mean(wrong),
        }
    )
    assert tally.starvation.texts == 6 and tally.starvation.without < tally.starvation.asked


def test_a_batch_in_which_no_text_can_be_changed_is_a_clean_one(tmp_path: Path) -> None:
    found = make_toy_data(6)
    rows = found.split("train")
    rows[:] = [row._replace(texts=(NOTHING,)) for row in rows]
    victim = before(found)
    loss, tally = step(victim, found, 1.0, str(tmp_path))
    examples = found.split("train")
    clean_loss = mean_loss(before(found).eval(), [e.texts for e in examples], [e.label for e in examples])
    assert loss == pytest.approx(float(clean_loss.detach()), rel=1e-5)
    assert tally.scores()["changed_share"] == tally.scores()["adversarial_texts"] == 0 and tally.searched == 6


def test_words_without_a_candidate_are_counted_and_starve_the_strategy() -> None:
    """Word vectors in which no word is near another leave every word without a candidate."""
    found = make_toy_data(16)
    fed = run(found, SHORT, epochs=1)
    assert fed.health is not None and not fed.health.flags
    assert fed.health.values["words asked"] > 0
    starved = run(found, SHORT, epochs=1, min_cosine=1.0)
    assert starved.health is not None
    assert [raised.flag for raised in starved.health.flags] == ["starved of candidates"]
    assert starved.health.values["share of words without a candidate"] == 1
    assert starved.scores["changed_share"] == starved.scores["adversarial_texts"] == 0
    assert "had no candidate" in starved.health.flags[0].because


def test_neighbours_need_no_masked_lm() -> None:
    options = AdversarialTuningOptions(variant="released")
    assert adversarial.AdversarialStrategy().needs(options) == ("word_vectors", "stopwords")
    assert (options.source, options.candidates, options.order, options.keep_step) == (
        *("neighbours", 24, "once"),
        "positive",
    )
    assert AdversarialTuningOptions() == AdversarialTuningOptions(variant="printed")
    made = run(make_toy_data(16), SHORT, variant="released", epochs=1)
    assert made.scores["adversarial_texts"] > 0


def test_the_model_is_asked_without_dropout_whether_it_errs(tmp_path: Path) -> None:
    found, fooled = make_toy_data(16), []
    for dropout in (0.0, 0.9):
        victim = before(found)
        victim.dropout.p = dropout
        fooled.append(step(victim, found, 1.0, str(tmp_path), until="budget", max_words=1)[1].fooled)
        assert victim.training, "the step itself has dropout"
    assert fooled[0] == fooled[1]


def test_adversarial_texts_are_cut_as_clean_ones_are(tmp_path: Path) -> None:
    found, lengths = make_toy_data(8), []
    victim = before(found, max_length=8)
    victim.register_forward_pre_hook(
        lambda module, args, inputs: lengths.append(inputs["input_ids"].shape[1]), with_kwargs=True
    )
    _, tally = step(victim, found, 1.0, str(tmp_path), until="budget", max_words=1)
    assert tally.texts == 8 and {*lengths} == {8}


def test_texts_on_which_the_model_errs_are_changed_unless_they_are_to_be_left(tmp_path: Path) -> None:
    found = make_toy_data(20)
    victim = before(found).eval()
    with torch.no_grad():
        inputs = victim.tokenizer([e.texts[0] for e in found.split("train")], padding=True, return_tensors="pt")
        wrong = (1 - victim(**inputs).logits.argmax(dim=1)).tolist()
    found = make_toy_data(20, labels=wrong)
    loss, tally = step(before(found), found, 1.0, str(tmp_path), erring="leave")
    assert (tally.searched, tally.texts) == (20, 0)
    assert loss == pytest.approx(mean_loss(victim, [e.texts for e in found.split("train")], wrong).item(), rel=1e-5)
    _, tally = step(before(found), found, 1.0, str(tmp_path), until="budget")
    assert tally.scores()["words_replaced"] == pytest.approx(0.4)  # four of ten words
    _, tally = step(before(found), found, 1.0, str(tmp_path))
    assert tally.texts == 20 and 0.1 <= tally.scores()["words_replaced"] < 0.4, "one word, and more if that helps"


def test_the_control_has_the_same_budget_and_fools_less(tmp_path: Path) -> None:
    """Random changes of a victim that has learnt the task, and the search's, within a budget of four of ten words."""
    found, tallies = make_toy_data(24), {}
    for name, strategy in (
        ("geometry", adversarial.AdversarialStrategy),
        ("random", random_substitutions.RandomStrategy),
    ):
        _, tallies[name] = step(toy.trained(), found, 1.0, str(tmp_path), strategy, until="budget")
    assert tallies["random"].scores()["words_replaced"] == pytest.approx(0.4)
    assert tallies["random"].fooled < 0.7 * tallies["geometry"].fooled
    assert tallies["random"].searched == 24 and tallies["random"].starvation.asked > 0


def test_the_control_draws_anew_in_each_epoch_and_ends_as_the_search_does(tmp_path: Path) -> None:
    found = make_toy_data(10)
    (first, fooled), (same, _), (other, _) = (
        step(before(found), found, epoch, str(tmp_path), random_substitutions.RandomStrategy)
        for epoch in (1.0, 1.5, 2.0)
    )
    assert first == same != other
    _, budget = step(before(found), found, 1.0, str(tmp_path), random_substitutions.RandomStrategy, until="budget")
    assert fooled.scores()["words_replaced"] < budget.scores()["words_replaced"]


def test_of_some_texts_the_others_are_trained_on_as_they_are(tmp_path: Path) -> None:
    """Four of 12 texts are searched. The loss says which: one set of four gives it, and chance draws others."""
    found = make_toy_data(12)
    examples = found.split("train")
    loss, tally = step(before(found), found, 1.0, str(tmp_path), until="budget", max_words=2, num_texts=4)
    assert tally.searched == tally.texts == 4
    drawn = np.random.default_rng([42, 1]).choice(12, 4, replace=False)  # transformers' default seed, the epoch
    rows = [row for row in range(12) if row in drawn]
    slow = before(found).eval()
    made = search(slow, [examples[row] for row in rows], most=2)
    texts = [e.texts for e in examples] + [one.texts for one in made]
    expected = mean_loss(slow, texts, [e.label for e in examples] + [examples[row].label for row in rows]).detach()
    assert loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.nightly
def test_other_texts_are_drawn_in_other_epochs_and_all_where_there_are_fewer(tmp_path: Path) -> None:
    found = make_toy_data(12)
    steps = partial(step, folder=str(tmp_path), until="budget", max_words=1)
    one, same, other = (steps(before(found), found, epoch, num_texts=4)[0] for epoch in (1.0, 1.5, 2.0))
    assert one == same != other
    assert steps(before(found), found, 1.0, num_texts=13)[0] == steps(before(found), found, 1.0)[0]
    _, control = step(before(found), found, 1.0, str(tmp_path), random_substitutions.RandomStrategy, num_texts=4)
    assert control.searched == 4


def test_texts_are_drawn_and_counted_for_each_epoch_of_a_training(tmp_path: Path) -> None:
    found = make_toy_data(12)
    trainer, searched = make_trainer(before(found), found, str(tmp_path), max_words=1, num_texts=4), []
    search_all = trainer.geometry

    def geometry(texts: Any, *others: Any, **more: Any) -> Any:
        searched.append({*texts})
        return search_all(texts, *others, **more)

    trainer.geometry = geometry
    counts = []
    for epoch in (1.0, 1.5, 2.0):
        take_step(trainer, epoch)
        counts.append(trainer.tally.searched)
    examples = found.split("train")
    drawn = [np.random.default_rng([42, epoch]).choice(12, 4, replace=False) for epoch in (1, 2)]
    one, two = ({examples[row].texts for row in rows} for rows in drawn)
    assert searched == [one, one, two] and one != two
    assert counts == [4, 8, 4], "of the last epoch alone"


def test_a_batch_without_a_drawn_text_is_a_clean_one() -> None:
    """One text of 16 is searched, in two batches."""
    _, scores = run(make_toy_data(16), SHORT.model_copy(update={"batch_size": 8}), epochs=1, num_texts=1)
    assert scores["searched_texts"] == 1


# ------------------------------------------------------------------------------------------------------ the whole run

SHORT = Training(epochs=2, learning_rate=1e-3, batch_size=16)


def test_adversarial_epochs_come_after_the_clean_ones() -> None:
    told: list[str] = []
    _, scores = run(make_toy_data(32), SHORT, epochs=1, told=told)
    counted = {"changed_share", "searched_texts", "words_replaced", "fooled", "adversarial_texts"}
    assert set(scores) == {"validation_accuracy", "best_epoch", *counted}
    assert scores["searched_texts"] == 32 and scores["adversarial_texts"] == 32 * scores["changed_share"]
    assert scores["best_epoch"] == 2
    assert 0 < scores["words_replaced"] <= 0.4
    steps = [text for text in told if "replaced" in text]
    assert not any("replaced" in text for text in told[:2])  # the clean epoch has two steps
    assert len(steps) == len(told) - 2
    assert "validation accuracy" in told[-1]


def test_the_control_runs_whole_and_a_seed_decides_it() -> None:
    found = make_toy_data(16)
    context = [
        FinetuneContext(
            toy.classifier().encoder,
            found,
            SHORT,
            seed=seed,
            device="cpu",
            progress=lambda done, total, text: None,
            resources=toy.resources(),
        )
        for seed in (0, 0)
    ]
    options = RandomTuningOptions(source="neighbours", until="budget")
    (one, scores), (again, same) = (random_substitutions.RandomStrategy().run(options, given) for given in context)
    assert scores == same and 0 < scores["words_replaced"] <= 0.41
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True))
    assert set(scores) == {"validation_accuracy", "best_epoch", *random_substitutions.RandomStrategy.counted}


def test_adversarial_epochs_may_be_other_than_the_tasks_and_the_seed_decides_the_outcome() -> None:
    found = make_toy_data(16)
    one, scores = run(found, SHORT, epochs=1)
    other, same = run(found, SHORT.model_copy(update={"epochs": 1}))
    assert scores == same and scores["best_epoch"] == 2
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize(("keep", "epoch"), [("best", 3), ("last", 4)])
def test_no_clean_epoch_is_kept_however_good_it_was(keep: str, epoch: int) -> None:
    """The learning rate is so small that all epochs are equally accurate: of equal ones the first is the best."""
    found = make_toy_data(8)
    victim, scores = run(found, SHORT.model_copy(update={"learning_rate": 1e-9}), clean_epochs=2, keep=keep)
    assert scores["best_epoch"] == epoch
    validation = found.split("validation")
    assert scores["validation_accuracy"] == pytest.approx(accuracy(victim, [e.texts for e in validation], validation))


@pytest.mark.parametrize("name", ["order", "word_norm", "direction", "projection", "accept_flip", "keep_step"])
def test_the_control_has_no_option_that_it_does_without(name: str) -> None:
    assert name in AdversarialTuningOptions.model_fields
    with pytest.raises(ValidationError, match=name):
        RandomTuningOptions(**{name: AdversarialTuningOptions().model_dump()[name]})


def test_the_control_of_the_released_variant_has_its_candidates_and_budget() -> None:
    options = RandomTuningOptions(variant="released")
    assert (options.source, options.candidates, options.max_words) == ("neighbours", 24, 50)


def test_the_defaults_are_the_papers() -> None:
    options = AdversarialTuningOptions()
    assert (options.clean_epochs, options.max_words, options.share, options.candidates) == (1, 10, 0.4, 50)
