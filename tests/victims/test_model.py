"""Any transformers model for sequence classification is opened as it is, with its logits in the task's order."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, GPT2Config, GPT2ForSequenceClassification

from rbench.config import load_task
from rbench.config.registry import Registry
from rbench.encoders.architecture import build_embedded_tokenizer
from rbench.encoders.classify import BatchLimits, classify
from rbench.encoders.inference import build_rows, build_tensors
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, VictimSpec
from rbench.victims.model import ExistingClassifier, open_model
from rbench.victims.place import locate
from tests.refusals import refusal
from tests.victims.made import rewrite, write_classifier

TASK = load_task("mini-sentiment", Registry())
PAIRS = TaskSpec(name="pairs", kind="nli", columns=("premise", "hypothesis"), labels=("negative", "positive"))
TEXTS = ["the film was good", "a dull story", "good good"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_classifier(tmp_path_factory.mktemp("victims") / "shipped")


def spec(folder: Path, **more: object) -> VictimSpec:
    return VictimSpec.model_validate({"name": "shipped", "model": str(folder), **more})


def opened(folder: Path, **more: object) -> ExistingClassifier:
    return open_model(spec(folder, **more), folder, TASK)


def test_logits_are_those_of_transformers_in_the_order_of_the_task(folder: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    ours = opened(folder)
    with torch.inference_mode():
        assert torch.equal(ours(**inputs).logits, model(**inputs).logits[:, [1, 0]])
        same = opened(folder, labels={"POSITIVE": "negative", "NEGATIVE": "positive"})
        assert torch.equal(same(**inputs).logits, model(**inputs).logits)
    theirs = model(**inputs).logits.argmax(1)
    assert classify(ours, [(text,) for text in TEXTS]).labels.tolist() == (1 - theirs).tolist()
    assert (ours.num_labels, ours.max_length) == (2, 64)
    assert opened(folder, max_length=7).max_length == 7 and opened(folder, max_length=999).max_length == 64


def test_two_texts_are_read_as_a_pair(folder: Path) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = [("the film was good", "a dull story"), ("good good", "the film")]
    inputs = AutoTokenizer.from_pretrained(folder)(
        *map(list, zip(*rows, strict=True)), padding=True, return_tensors="pt"
    )
    theirs = model(**inputs).logits.argmax(1)
    found = classify(open_model(spec(folder), folder, PAIRS), rows)
    assert found.labels.tolist() == (1 - theirs).tolist()


def test_the_head_is_the_layer_that_gives_the_logits(folder: Path) -> None:
    ours, kept = opened(folder), []
    assert ours.head is not None
    ours.model.classifier.register_forward_hook(lambda module, args, output: kept.append(args[0]))
    with torch.inference_mode():
        logits = ours(**ours.tokenizer(TEXTS[0], return_tensors="pt")).logits
        torch.testing.assert_close(ours.head(kept[0]), logits)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, "LABEL_0"),
        ({"id2label": {"0": "score"}}, "score"),
        ({"architectures": ["BertModel"]}, "BertModel"),
        ({"problem_type": "multi_label_classification"}, "mini-sentiment"),
    ],
)
def test_what_cannot_be_attacked_is_refused_before_weights_are_read(
    folder: Path, tmp_path: Path, config: dict[str, object], named: str
) -> None:
    for file in ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        if (folder / file).exists():
            (tmp_path / file).write_bytes((folder / file).read_bytes())
    rewrite(tmp_path, **config)
    with pytest.raises(ResourceError) as caught:
        locate(spec(tmp_path), TASK)
    assert "`shipped`" in str(caught.value) and named in str(caught.value)


def test_a_path_that_is_not_there_is_not_looked_for_on_the_hub() -> None:
    with pytest.raises(ResourceError) as caught:
        locate(VictimSpec(name="none", model="./none"), TASK)
    assert "./none" in str(caught.value)


def test_missing_weights_are_refused_and_never_drawn(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith("classifier")}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with refusal(ResourceError, "classifier.bias", "classifier.weight"):
        open_model(spec(tmp_path), tmp_path, TASK)


def test_other_weights_have_another_fingerprint_and_a_copy_the_same(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert locate(spec(tmp_path), TASK).fingerprint == locate(spec(folder), TASK).fingerprint
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] += 1
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert locate(spec(tmp_path), TASK).fingerprint != locate(spec(folder), TASK).fingerprint


def test_a_decoder_reads_a_padded_text_where_the_text_ends(tmp_path: Path) -> None:
    tokenizer = build_embedded_tokenizer()
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=16, n_layer=1, n_head=2, n_positions=64, initializer_range=0.5
    )
    config.pad_token_id = tokenizer.pad_token_id + 5  # its head takes this token for padding, whatever pads
    config.id2label, config.label2id = {0: "negative", 1: "positive"}, {"negative": 0, "positive": 1}
    GPT2ForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = opened(tmp_path)
    rows = build_rows(model.tokenizer(TEXTS))
    assert model.pad[0] == config.pad_token_id and model.batching == BatchLimits()
    with torch.inference_mode():
        padded = model(**build_tensors(rows, model.pad, 1, model.device)).logits
        alone = torch.cat([model(**model.tokenizer([text], return_tensors="pt")).logits for text in TEXTS])
    torch.testing.assert_close(padded, alone)
