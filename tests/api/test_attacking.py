"""`rbench.attack`: any classifier, texts and labels give a result, or are refused before anything is attacked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import rbench
from rbench import recipes as _ready  # noqa: F401  (before textattack is imported)
from rbench.api import attacking
from rbench.api.results import AttackResult
from rbench.errors import JobError, PlanError, RbenchError, ResourceError
from rbench.mini import tokenizer
from rbench.schema import Outcome
from rbench.system.progress import SilentProgress

TEXTS = ["The farce was a disaster in his city.", "The film was superb.", "The plot was dull and long."]
LABELS = [0, 1, 0]
NAMES = ["negative", "positive"]
BAD = ("disaster", "dull")


def predict(texts: list[str]) -> list[list[float]]:
    """A classifier by key words."""
    return [[0.9, 0.1] if any(word in text for word in BAD) else [0.2, 0.8] for text in texts]


def attack(
    victim: Any = predict, texts: Any = TEXTS, labels: Any = LABELS, name: Any = "pwws", **more: Any
) -> AttackResult:
    return rbench.attack(
        victim, texts, labels, name, **{"resources": "mini", "progress": False, "backend": "torch", **more}
    )


def counts_words(texts: list[str]) -> list[list[float]]:
    """A classifier that only a text of another length fools."""
    return [[0.1, 0.9] if len(text.split()) == 14 else [0.9, 0.1] for text in texts]


@pytest.mark.parametrize("name", ["textbugger", {"textbugger": {"max_words": 1}}])
def test_a_word_that_was_split_is_one_word_changed(name: Any) -> None:
    """Also where the attack may change one word: what it is allowed is what is reported."""
    text = "the film was superb and they adored all of the other parts as well"
    (outcome,) = attack(counts_words, [text], [1], name).outcomes
    assert outcome.status == "succeeded" and outcome.perturbed is not None
    assert len(outcome.perturbed[0].split()) == 15
    assert (outcome.num_words, outcome.num_words_changed) == (14, 1)
    assert outcome.perturbed_share == pytest.approx(1 / 14)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny BERT with a head, wild enough that words matter, and its tokenizer."""
    folder = tmp_path_factory.mktemp("words")
    tokenizer.write_tokenizer(folder)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(config), words


def outcomes(result: AttackResult) -> list[tuple[Any, ...]]:
    return [(one.status, one.num_queries, one.perturbed, one.original_prediction) for one in result.outcomes]


# ------------------------------------------------------------------------------------------------------- functions


def test_a_function_is_attacked_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = attack(label_names=NAMES)
    assert [one.example_id for one in result.outcomes] == ["0", "1", "2"]
    assert not [*tmp_path.iterdir()]
    row = result.summary.iloc[0]
    hit = [one for one in result.outcomes if one.status == "succeeded"]
    assert hit and row.n == 3 and row.asr == pytest.approx(len(hit) / 3) and row.asr_low < row.asr
    for one in hit:  # the victim itself agrees
        assert one.original is not None and one.perturbed is not None
        assert np.argmax(predict([one.original[0]])) == one.label != np.argmax(predict([one.perturbed[0]]))


def test_labels_may_be_names_and_victims_may_answer_by_name() -> None:
    def named(texts: list[str]) -> list[dict[str, float]]:
        return [dict(zip(NAMES, row, strict=True)) for row in predict(texts)]

    said = attack(named, labels=["negative", "positive", "negative"])
    assert said.task.labels == tuple(NAMES) and outcomes(said) == outcomes(attack())


def test_a_function_that_gives_logits() -> None:
    logits = attack(lambda texts: np.log(predict(texts)) + 3, scores="logits")
    assert outcomes(logits) == outcomes(attack())


def test_pairs_go_to_the_function_as_tuples_and_the_premise_stays() -> None:
    seen: list[Any] = []

    def judge(pairs: list[tuple[str, str]]) -> list[list[float]]:
        seen.extend(pairs)
        return predict([second for _, second in pairs])

    texts = [{"premise": text, "hypothesis": text} for text in TEXTS[:1]]
    result = attack(judge, texts, [0])
    assert all(isinstance(pair, tuple) and len(pair) == 2 for pair in seen)
    (one,) = result.outcomes
    assert one.status == "succeeded" and one.original is not None and one.perturbed is not None
    assert one.perturbed[0] == one.original[0] and one.perturbed[1] != one.original[1]
    assert result.frame.original_columns[0].startswith('{"premise"')


def test_wrong_texts_are_skipped_and_errors_are_kept() -> None:
    def fragile(texts: list[str]) -> list[list[float]]:
        if any("superb" in text for text in texts):
            raise ValueError("no opinion")
        return predict(texts)

    result = attack(fragile, labels=[1, 1, 0])
    assert [one.status for one in result.outcomes[:2]] == ["skipped", "errored"]
    assert "no opinion" in (result.outcomes[1].error or "")
    assert result.summary.errored[0] == 1 and result.summary.n[0] == 1


def test_a_text_that_is_not_unicode_is_errored_by_its_place_and_the_others_are_attacked() -> None:
    seen: list[str] = []

    def noting(texts: list[str]) -> list[list[float]]:
        seen.extend(texts)
        return predict(texts)

    result = attack(noting, ["half \ud83d of an emoji", TEXTS[0], b"caf\xe9".decode("utf-8", "surrogateescape")])
    assert [one.status == "errored" for one in result.outcomes] == [True, False, True]
    assert str(result.outcomes[0].error).startswith("UnicodeError: texts[0] ")
    assert "texts[2]" in str(result.outcomes[2].error) and "position 3" in str(result.outcomes[2].error)
    assert result.outcomes[2].original == ("caf\ufffd",) and result.outcomes[2].label == LABELS[2]
    assert repr(result).encode() and result.frame.to_csv().encode() and result._repr_html_().encode()
    assert "caf" not in "".join(seen).encode().decode(), "what a victim is asked is valid Unicode"
    with pytest.raises(JobError):
        attack(noting, ["\udc80"], [0])


def test_outcomes_are_in_the_order_of_the_texts_whichever_ends_first() -> None:
    result = attack(labels=[0, 0, 0])  # the second is skipped, which takes one query
    assert [(one.example_id, one.status == "skipped") for one in result.outcomes] == [
        ("0", False),
        ("1", True),
        ("2", False),
    ]


def test_a_victim_that_always_fails_ends_the_attack() -> None:
    asked: list[str] = []

    def broken(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        if any("The farce" in text for text in asked[1:]):
            raise ValueError("out of order")
        return predict(texts)

    with pytest.raises(RbenchError) as caught:
        attack(broken, TEXTS[:1], [0])
    assert "out of order" in str(caught.value)


def test_a_function_that_raises_on_a_text_leaves_that_text_errored() -> None:
    def broken(texts: list[str]) -> list[list[float]]:
        if TEXTS[0] in texts:
            1 / 0  # noqa: B018
        return predict(texts)

    for names in (NAMES, None):
        result = attack(broken, label_names=names)
        assert [one.status == "errored" for one in result.outcomes] == [True, False, False]
        assert "ZeroDivisionError" in (result.outcomes[0].error or "")


def test_a_function_that_raises_on_each_text_is_told_with_the_users_own_line() -> None:
    def broken(texts: list[str]) -> list[list[float]]:
        return [[1 / 0, 0.0] for _ in texts]

    with pytest.raises(RbenchError) as caught:
        attack(broken)
    assert "ZeroDivisionError" in str(caught.value) and Path(__file__).name in str(caught.value)


def test_labels_that_change_places_are_noted() -> None:
    texts = [*TEXTS] * 6
    labels = [int(np.argmax(predict([text])[0])) for text in texts]
    assert attack(texts=texts, labels=labels).notes == ()
    result = attack(texts=texts, labels=[1 - label for label in labels])
    assert "labels exchanged? accuracy 0.000 on 18 rows, and 1.000 if" in result.notes[0]
    assert result.notes[0] in repr(result)


def test_a_wrapper_of_textattack_is_read_as_textattack_reads_it() -> None:
    from textattack.models.wrappers import ModelWrapper

    class Wrapped(ModelWrapper):  # type: ignore[misc]
        def __call__(self, texts: list[str]) -> torch.Tensor:
            return torch.tensor(np.log(predict(texts)) + 3)

    assert outcomes(attack(Wrapped())) == outcomes(attack())


# ---------------------------------------------------------------------------------------------------------- models


def test_a_model_in_memory_in_a_folder_and_behind_a_function_give_the_same(model: Any, tmp_path: Path) -> None:
    network, words = model
    network.train()
    here = attack((network, words))
    assert network.training, "the model is left as it was"
    network.eval()
    for part in model:
        part.save_pretrained(tmp_path / "mine")
    folder = attack(tmp_path / "mine")
    assert folder.victim == "mine" and folder.task.labels == tuple(NAMES)
    pipeline = SimpleNamespace(model=network, tokenizer=words, task="text-classification")

    def function(texts: list[str]) -> torch.Tensor:
        rows = []
        for text in texts:
            with torch.inference_mode():
                rows.append(network(**words(text, return_tensors="pt", truncation=True, max_length=64)).logits[0])
        return torch.stack(rows)

    expected = outcomes(here)
    assert outcomes(folder) == expected and outcomes(attack(pipeline)) == expected
    assert outcomes(attack(function, scores="logits")) == expected
    mapped = {"model": str(tmp_path / "mine"), "labels": {"negative": "bad", "positive": "good"}}
    assert outcomes(attack(mapped, labels=["bad", "good", "bad"])) == expected
    assert outcomes(attack(tmp_path / "mine", label_names=["bad", "good"], labels=["bad", "good", "bad"])) == expected


def test_a_victim_that_rbench_saved() -> None:
    result = attack("robustsentembed-mini-victim", TEXTS[:1], ["negative"])
    assert result.task.labels == tuple(NAMES) and result.outcomes[0].original_prediction == 0


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"victim": 3}, "int"),
        ({"victim": "./nowhere"}, "nowhere"),
        ({"victim": "predict.py:classify"}, "predict:classify"),
        ({"victim": {"model": "./x", "function": "a:b"}}, "function"),
        ({"victim": lambda texts: [[1.0]] * len(texts)}, "label_names"),
        ({"victim": lambda texts: [0.5, 0.5]}, "2"),
        ({"victim": lambda texts: [[0.4, 0.9]] * len(texts)}, "logits"),
        ({"victim": lambda texts: [[float("nan"), 1.0]] * len(texts)}, "NaN"),
        ({"victim": SimpleNamespace(config=None)}, "SimpleNamespace"),
        ({"name": "pwsw"}, "pwws"),
        ({"name": {"pwws": {"max_word": 1}}}, "max_words"),
        ({"name": "geometry"}, "gradients"),
        ({"name": "HotFlipEbrahimi2017"}, "LSTM"),
        ({"name": "bae"}, "masked_lm"),
        ({"resources": "minni"}, "mini"),
        ({"label_names": ["a"]}, "0, 1"),
        ({"label_names": ["a", "A"]}, "a, A"),
        ({"labels": [0, 1, 2]}, "labels[2]"),
        ({"workers": 2}, "workers=2"),
        ({"out": "RUN"}, "out"),
        ({"device": "tpu"}, "tpu"),
    ],
)
def test_what_is_wrong_is_refused_before_an_attack(change: dict[str, Any], named: str) -> None:
    with pytest.raises(RbenchError) as error:
        attack(**change)
    assert named in str(error.value) and not isinstance(error.value, JobError)


def test_models_that_are_no_classifiers_are_refused(model: Any) -> None:
    network, words = model
    with pytest.raises(PlanError):
        attack((network.bert, words))
    with pytest.raises(PlanError):
        attack(SimpleNamespace(model=network, tokenizer=words, task="fill-mask"))


def test_a_folder_that_is_no_classifier(tmp_path: Path) -> None:
    with pytest.raises(ResourceError):
        attack(tmp_path)


# ---------------------------------------------------------------------------------------------------------- progress


class Heard(SilentProgress):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def start(self, name: str, index: int, count: int) -> None:
        self.calls.append((name, index, count))

    def update(self, done: int, total: int, text: str = "") -> None:
        self.calls.append((done, total))


def test_progress_is_reported_example_by_example() -> None:
    heard = Heard()
    attack(progress=heard)
    assert heard.calls == [("pwws on predict", 1, 1), (1, 3), (2, 3), (3, 3)]


def test_a_mistyped_keyword_is_told_from_the_calls_own_too() -> None:
    with pytest.raises(PlanError):
        rbench.attack(lambda texts: [[1.0, 0.0]] * len(texts), ["a film"], [0], "pwws", labelnames=["a", "b"])


# ------------------------------------------------------------------------------------------- outcomes while they come


def test_outcomes_are_handed_on_while_others_are_attacked_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, there = [0.0], list[Outcome]()
    told, shown = list[tuple[str, int, int]](), list[tuple[int, int, str]]()
    monkeypatch.setattr(attacking, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Shown(SilentProgress):
        def update(self, done: int, total: int, text: str = "") -> None:
            shown.append((done, total, text))

    def outcome(name: str) -> Outcome:
        return Outcome(example_id=name, status="failed", original=("good",), label=1)

    def seen(one: Outcome, number: int, count: int) -> None:
        told.append((one.example_id, number, count))

    telling = attacking.OutcomeProgress(Shown(), lambda: there, seen, total=9)
    telling.update(0, 3)
    there.append(outcome("b"))
    telling.update(1, 3, "ASR 0% of 1")  # too soon to look again
    assert told == []
    clock[0] = 1.0
    there.append(outcome("a"))
    telling.update(2, 3)
    assert told == [("b", 1, 3), ("a", 2, 3)]
    there.insert(0, outcome("c"))  # merged into the order of the sample
    telling.report_new()
    telling.report_new()
    assert told[2:] == [("c", 3, 3)]
    assert shown == [(0, 3, ""), (1, 3, "ASR 0% of 1"), (2, 3, "")]
