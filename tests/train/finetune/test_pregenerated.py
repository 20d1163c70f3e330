"""Tests fine-tuning on adversarial texts that were generated beforehand, alone and in a suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from rbench import api
from rbench.errors import JobError
from rbench.plan.prepare import Options
from rbench.schema import Health, Outcome, Training
from rbench.store.runs import RunStore
from rbench.train.finetune import clean, pregenerated, sample_split
from tests import tiny
from tests.refusals import refusal

TRAINING = Training(epochs=1, learning_rate=1e-3, batch_size=8, max_train=24)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_bert(tmp_path_factory.mktemp("bert"))


def outcome(example: Any, status: str, text: str | None) -> Outcome:
    return Outcome.model_validate(
        {
            "example_id": example.id,
            "status": status,
            "original": example.texts,
            "label": example.label,
            "perturbed": None if text is None else (text,),
        }
    )


def run(module: Any, folder: Path, data: Any, training: Training, **more: Any) -> tuple[torch.Tensor, dict[str, float]]:
    options = more.pop("options", module.Options())
    victim, scores = module.run(options, tiny.context(tiny.encoder(folder), data, training, seed=1, **more))
    return torch.cat([p.detach().flatten() for p in victim.parameters()]), scores


def test_it_is_clean_fine_tuning_on_the_examples_and_what_was_made_of_them(folder: Path) -> None:
    data = tiny.data()
    chosen = sample_split(data, "train", 24, 1)
    statuses = ["succeeded", "failed", "skipped", "failed"] * 6
    texts = {"succeeded": "word of another kind", "failed": "a failed one", "skipped": None}
    generated = [outcome(e, s, texts[s]) for e, s in zip(chosen, statuses, strict=True)]
    generated[1] = outcome(chosen[1], "failed", chosen[1].texts[0])  # left as it was: nothing to learn from
    sampled = TRAINING.model_copy(update={"train_share": 24 / 200})
    weights, scores = run(pregenerated.PregeneratedStrategy(), folder, data, sampled, generated=generated)
    added = [
        type(e)(f"{e.id}:adversarial", (texts[s],), e.label)
        for i, (e, s) in enumerate(zip(chosen, statuses, strict=True))
        if texts[s] is not None and i != 1
    ]
    assert scores["adversarial_texts"] == len(added) == 17
    assert scores["searched_texts"] == 18 and scores["changed_share"] == 17 / 18
    whole = TRAINING.model_copy(update={"max_train": None})
    expected, _ = run(clean.CleanStrategy(), folder, data.with_train([*chosen, *added]), whole)
    assert torch.equal(weights, expected)
    only = pregenerated.Options(texts="successes")
    _, fewer = run(pregenerated.PregeneratedStrategy(), folder, data, TRAINING, generated=generated, options=only)
    assert fewer["adversarial_texts"] == 6 and fewer["changed_share"] == 17 / 18


@pytest.mark.parametrize(
    ("without", "flags"), [pytest.param(1, [], marks=pytest.mark.nightly), (4, ["starved of candidates"])]
)
def test_words_without_a_candidate_are_taken_from_the_outcomes(folder: Path, without: int, flags: list[str]) -> None:
    data = tiny.data()
    generated = [
        outcome(e, "failed", "another text").model_copy(update={"words_asked": 5, "words_without_candidate": without})
        for e in sample_split(data, "train", 24, 1)
    ]
    context = tiny.context(tiny.encoder(folder), data, TRAINING, seed=1, generated=generated)
    health = pregenerated.PregeneratedStrategy().run(pregenerated.Options(), context).health
    assert health is not None and [raised.flag for raised in health.flags] == flags
    assert health.values["words asked"] == 120
    context = tiny.context(
        tiny.encoder(folder),
        data,
        TRAINING,
        seed=1,
        generated=[one.model_copy(update={"words_asked": None}) for one in generated],
    )
    assert pregenerated.PregeneratedStrategy().run(pregenerated.Options(), context).health == Health(), (
        "older outcomes do not tell"
    )


def test_texts_that_timed_out_are_not_left_out_silently(folder: Path) -> None:
    data = tiny.data()
    generated = [outcome(e, "failed", "another text") for e in sample_split(data, "train", 24, 1)]
    generated[3] = generated[3].model_copy(update={"status": "errored", "error": "TimedOut: took 5 s"})
    with refusal(JobError, "1 of 24", "--retry-timeouts"):
        run(pregenerated.PregeneratedStrategy(), folder, data, TRAINING, generated=generated)


def test_a_suite_attacks_the_training_texts_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine" / "encoders").mkdir(parents=True)
    small = "{hidden_size: 16, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16}"
    (tmp_path / "mine/encoders/own.yaml").write_text(
        f"architecture: {small}\ntrain: {{objective: mlm, data: mini-topic, steps: 2, batch_size: 16}}\n"
    )
    (tmp_path / "s.yaml").write_text(
        "encoders: [own]\ntasks: [mini-sentiment]\nattacks: [pwws]\nresources: mini\nnum_examples: 2\n"
        "finetune: [clean, pregenerated: {attack: {pwws: {max_words: 3}}}]\n"
        "training: {max_train: 6, max_validation: 10, epochs: 1}\n"
    )
    result = api.run("s.yaml", Options(include=(tmp_path / "mine",), device="cpu"))
    assert not result.failed
    store = RunStore(result.run)
    plan = store.plan()
    assert plan is not None
    made = next(job for job in plan.jobs if job.parts[-1] == "train")
    outcomes = store.outcomes(made)
    assert len(outcomes) == 6 and all(o.example_id.startswith("train:") for o in outcomes)
    tuned = next(job for job in plan.jobs if job.stage == "finetune" and job.needs.get("attack") == made.key)
    record = store.record(tuned)
    assert record is not None
    values = {score.name: score.value for score in record.scores}
    added, searched = values["adversarial_texts"], values["searched_texts"]
    assert searched == sum(outcome.status in ("succeeded", "failed") for outcome in outcomes)
    assert {score.name: score.n for score in record.scores} == {
        **dict.fromkeys(("validation_accuracy", "best_epoch"), 10),
        **dict.fromkeys(("changed_share", "searched_texts"), searched),
        "adversarial_texts": added,
    }
    changed = [o for o in outcomes if o.perturbed not in (None, o.original)]
    assert added == len(changed)
    # The attack on training texts is no cell of the table.
    table = json.loads(api.table(result.run, fmt="json"))
    assert {cell["n"] + cell["skipped"] + cell["errored"] for cell in table["cells"]} == {2}
    assert len(table["cells"]) == 2
