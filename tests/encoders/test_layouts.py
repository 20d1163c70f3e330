"""Tests that rbench measures what sentence-transformers would encode, on folders that sentence-transformers writes.

Tiny networks of their kinds, with random weights.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Dense, Dropout, LayerNorm, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rbench import encoders
from rbench.attack import Victim
from rbench.encoders.classifier import EncoderClassifier
from rbench.encoders.described import described
from rbench.encoders.sentence import SentenceEncoder
from rbench.spec import EncoderSpec
from tests.kinds import WIDTH, network
from tests.tiny import WORDS

TEXTS = ["good", "the film was a good story and a fine plot", "bad Plot", "the film seemed dull " * 12, "", "awful"]
"""Texts of several lengths, one longer than any maximum here, one empty, and one that is not in lower case."""
VOCABULARY = {
    word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", "<mask>", "query", ":", "Plot", "plots", *WORDS])
}


def tokenizer(start: bool = True, end: bool = True, lower: bool = False, **more: Any) -> Any:
    """A fast tokenizer of a few words, with or without tokens around a text."""
    core = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    if lower:
        core.normalizer = normalizers.Lowercase()
    around = [name for name, wanted in (("<s>", start), ("</s>", end)) if wanted]
    core.post_processor = processors.TemplateProcessing(
        single=f"{'<s> ' if start else ''}$A{' </s>' if end else ''}",
        pair=f"{'<s> ' if start else ''}$A </s> $B{' </s>' if end else ''}",
        special_tokens=[(name, VOCABULARY[name]) for name in {*around, "</s>"}],
    )
    named = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>", "cls": "<s>", "sep": "</s>"}
    settings = {**{f"{name}_token": token for name, token in named.items()}, "model_max_length": 64, **more}
    settings = {name: value for name, value in settings.items() if value is not None}
    inputs = ["input_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=inputs, **settings)


Make = Callable[..., Path]


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Writes a transformers folder of a kind, once for each kind and tokenizer."""
    made: dict[str, Path] = {}

    def write(kind: str, **more: Any) -> Path:
        name = f"{kind}{json.dumps(more, sort_keys=True)}"
        if name not in made:
            made[name] = tmp_path_factory.mktemp("networks")
            network(kind, len(VOCABULARY)).save_pretrained(made[name])
            tokenizer(**more).save_pretrained(made[name])
        return made[name]

    return write


def dense(width: int, dim: int, **more: Any) -> Dense:
    torch.manual_seed(dim)
    return Dense(width, dim, **more)


def normed(width: int) -> LayerNorm:
    layer = LayerNorm(width)
    with torch.no_grad():
        layer.norm.weight.uniform_(0.5, 2.0)
        layer.norm.bias.uniform_(-1.0, 1.0)
    return layer


Layout = Callable[[Make], SentenceTransformer]


def made_of(
    kind: str, pooling: str, *after: Callable[[], Any], more: dict[str, Any] | None = None, **options: Any
) -> Layout:
    """A SentenceTransformer: `options` of its Transformer module, `more` of the model and its tokenizer."""
    own = dict(more or {})
    include = own.pop("include_prompt", True)
    words = own.pop("tokenizer", {})

    def make(networks: Make) -> SentenceTransformer:
        first = Transformer(str(networks(kind, **words)), **options)
        parts = [first, Pooling(WIDTH, pooling_mode=pooling, include_prompt=include), *(make() for make in after)]
        return SentenceTransformer(modules=parts, device="cpu", **own)

    return make


PROMPTS = {"prompts": {"query": "query: ", "nli": "the plot "}, "default_prompt_name": "query"}
LEFT = {"start": False, "padding_side": "left"}
LAYOUTS: dict[str, tuple[Layout, dict[str, Any]]] = {
    "BERT, first token": (made_of("bert", "cls"), {"pooling": "cls"}),
    "BERT, mean, maximum length": (made_of("bert", "mean", max_seq_length=9), {"pooling": "mean"}),
    "BERT, max, normalised": (made_of("bert", "max", Normalize), {"pooling": "max", "normalize": True}),
    "BERT, weighted mean": (made_of("bert", "weightedmean"), {"pooling": "weighted-mean"}),
    "RoBERTa, tanh after the pooling": (
        made_of("roberta", "mean", lambda: dense(WIDTH, 12), max_seq_length=20),
        {"pooling": "mean"},
    ),
    "MPNet, square root, two Dense, normalised": (
        made_of(
            "mpnet",
            "mean_sqrt_len_tokens",
            lambda: dense(WIDTH, 48, bias=False, activation_function=torch.nn.Identity()),
            lambda: dense(48, 8, activation_function=torch.nn.GELU()),
            Normalize,
            max_seq_length=30,
        ),
        {"pooling": "sqrt-mean", "normalize": True},
    ),
    "DistilBERT, lower case": (made_of("distilbert", "cls", do_lower_case=True), {"pooling": "cls"}),
    "BERT, normalised before a Dense without bias": (
        made_of(
            "bert", "mean", Normalize, lambda: dense(WIDTH, 8, bias=False, activation_function=torch.nn.Identity())
        ),
        {"pooling": "mean"},
    ),
    "BERT, layer normalisation, dropout": (
        made_of("bert", "mean", lambda: normed(WIDTH), lambda: Dropout(0.5)),
        {"pooling": "mean"},
    ),
    "Qwen3, last token, padding on the left": (
        made_of("qwen3", "lasttoken", Normalize, more={"tokenizer": LEFT, **PROMPTS}),
        {"pooling": "last", "normalize": True, "prompt": "query: "},
    ),
    "Qwen3, last token, padding on the right": (
        made_of("qwen3", "lasttoken", more={"tokenizer": {"start": False}}),
        {"pooling": "last"},
    ),
    "prompt that is not pooled": (
        made_of("bert", "mean", more={"include_prompt": False, **PROMPTS}),
        {"pooling": "mean", "prompt": "query: ", "include_prompt": False},
    ),
    "prompt that is not pooled, weighted mean": (
        made_of("bert", "weightedmean", more={"include_prompt": False, **PROMPTS}),
        {"pooling": "weighted-mean", "prompt": "query: ", "include_prompt": False},
    ),
    "prompt that is not pooled, padding on the left": (
        made_of("llama", "mean", more={"tokenizer": LEFT, "include_prompt": False, **PROMPTS}),
        {"pooling": "mean", "prompt": "query: ", "include_prompt": False},
    ),
    "ModernBERT, cut to its first numbers": (
        made_of("modernbert", "mean", Normalize, more={"truncate_dim": 10}),
        {"pooling": "mean", "normalize": True, "truncate_dim": 10},
    ),
    "Gemma, both directions, two linear Dense": (
        made_of(
            "gemma",
            "mean",
            lambda: dense(WIDTH, 48, bias=False, activation_function=torch.nn.Identity()),
            lambda: dense(48, WIDTH, bias=False, activation_function=torch.nn.Identity()),
            Normalize,
            more=PROMPTS,
        ),
        {"pooling": "mean", "normalize": True, "prompt": "query: "},
    ),
}


@pytest.fixture(scope="session")
def saved(networks: Make, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, np.ndarray]]:
    """For the name of a layout: its folder, and what sentence-transformers encodes when it opens that folder."""
    made: dict[str, tuple[Path, np.ndarray]] = {}

    def write(name: str) -> tuple[Path, np.ndarray]:
        if name not in made:
            folder = tmp_path_factory.mktemp("layouts")
            make, _ = LAYOUTS[name]
            make(networks).save(str(folder))
            made[name] = folder, encoded(folder)
        return made[name]

    return write


def encoded(folder: Path) -> np.ndarray:
    """What sentence-transformers encodes, one text at a time: its weighted mean depends on padding on the left."""
    model = SentenceTransformer(str(folder), device="cpu")
    return np.concatenate([model.encode([text], show_progress_bar=False) for text in TEXTS])


def opened(folder: Path, **more: Any) -> SentenceEncoder:
    return encoders.load(EncoderSpec(**{"name": "toy", "base": "toy", **described(folder), **more}), folder)


@pytest.mark.parametrize("name", LAYOUTS)
def test_vectors_are_those_of_sentence_transformers(name: str, saved: Any) -> None:
    folder, theirs = saved(name)
    ours = opened(folder).encode(TEXTS)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, atol=1e-5, rtol=1e-5)
    assert np.abs(theirs[0] - theirs[1]).max() > 1e-2  # weights so small that all texts are alike would show nothing


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_folders_files_state_the_encoder(name: str, saved: Any) -> None:
    assert described(saved(name)[0]) == LAYOUTS[name][1]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_victim_and_an_export_encode_the_same(name: str, saved: Any, tmp_path: Path) -> None:
    folder, theirs = saved(name)
    encoder = opened(folder)
    EncoderClassifier(encoder, 2).save(tmp_path / "victim", {})
    victim, _ = EncoderClassifier.load(tmp_path / "victim")
    np.testing.assert_array_equal(victim.encoder.encode(TEXTS), encoder.encode(TEXTS))
    assert layout.obstacle(encoder) == ""
    layout.save(tmp_path / "export", victim.encoder)
    np.testing.assert_allclose(encoded(tmp_path / "export"), theirs, atol=1e-5, rtol=1e-5)
    np.testing.assert_array_equal(opened(tmp_path / "export").encode(TEXTS), encoder.encode(TEXTS))
    names = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not any(name.endswith((".bin", ".pt", ".pkl")) for name in names)


# --------------------------------------------------------------------------------------------- files of older versions


def legacy(folder: Path, to: Path, **pooling: Any) -> Path:
    """A copy of a layout with the files that sentence-transformers wrote before version 5.4."""
    shutil.copytree(folder, to)
    listed = json.loads((to / "modules.json").read_text())
    for module in listed:
        module["type"] = "sentence_transformers.models." + module["type"].rpartition(".")[2]
    (to / "modules.json").write_text(json.dumps(listed))
    (to / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 7, "do_lower_case": True}))
    (to / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": WIDTH, **pooling}))
    return to


@pytest.mark.parametrize(
    ("flags", "pooling"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "sqrt-mean"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({}, "mean"),
    ],
)
def test_older_files_say_pooling_length_and_lower_case(flags: Any, pooling: str, saved: Any, tmp_path: Path) -> None:
    folder = legacy(saved("BERT, first token")[0], tmp_path / "old", **flags)
    assert described(folder) == {"pooling": pooling, "max_length": 7, "lowercase": True}
    encoder = opened(folder)
    np.testing.assert_allclose(encoder.encode(TEXTS), encoded(folder), atol=1e-5, rtol=1e-5)
    both = encoder.encode(["bad Plot", "bad plot"])
    np.testing.assert_array_equal(both[0], both[1])
    EncoderClassifier(encoder, 2).save(tmp_path / "victim", {})
    victim, _ = EncoderClassifier.load(tmp_path / "victim")
    np.testing.assert_array_equal(victim.encoder.encode(["bad Plot"]), both[:1])


def test_a_length_that_the_files_state_goes_before_the_tokenizers(saved: Any, tmp_path: Path) -> None:
    folder = legacy(saved("BERT, mean, maximum length")[0], tmp_path / "old")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 40}')
    assert described(folder)["max_length"] == 40 == opened(folder).max_length
    np.testing.assert_allclose(opened(folder).encode(TEXTS), encoded(folder), atol=1e-5, rtol=1e-5)


def test_a_transformers_folder_is_pooled_as_sentence_transformers_does(networks: Make, tmp_path: Path) -> None:
    causal = tmp_path / "causal"
    shutil.copytree(networks("qwen3", start=False), causal)
    config = json.loads((causal / "config.json").read_text())
    for folder, pooling in ((networks("bert"), "mean"), (networks("qwen3", start=False), "mean"), (causal, "last")):
        if folder == causal:
            (causal / "config.json").write_text(json.dumps(config | {"architectures": ["Qwen3ForCausalLM"]}))
        assert described(folder) == {"pooling": pooling}
        np.testing.assert_allclose(opened(folder).encode(TEXTS), encoded(folder), atol=1e-5, rtol=1e-5)


def test_a_tokenizer_without_a_token_for_padding_pads(networks: Make) -> None:
    encoder = opened(networks("llama", pad_token=None))
    assert encoder.tokenizer.pad_token == "</s>"
    with torch.no_grad():
        together = encoder(**encoder.tokenizer(TEXTS[:4], padding=True, return_tensors="pt"))
    np.testing.assert_allclose(together, encoder.encode(TEXTS[:4]), atol=1e-5)


# ---------------------------------------------------------------------------------------------- what rbench does not do


def change(folder: Path, name: str, **more: Any) -> None:
    path = folder / name
    now = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({key: value for key, value in (now | more).items() if value is not None}))


@pytest.mark.parametrize(
    ("file", "more", "said"),
    [
        ("1_Pooling/config.json", {"pooling_mode": ["cls", "mean"]}, "made by cls and mean together"),
        ("1_Pooling/config.json", {"pooling_mode": "median"}, "made by median"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "the task fill-mask"),
        ("sentence_bert_config.json", {"modality_config": {"text": {}, "message": {}}}, "a chat template"),
        ("sentence_bert_config.json", {"modality_config": {"image": {}}}, "other than text"),
        ("sentence_bert_config.json", {"processing_kwargs": {"text": {"add_special_tokens": False}}}, "tokenizer"),
        ("adapter_config.json", {"peft_type": "LORA"}, "merge_and_unload"),
    ],
)
def test_what_rbench_does_not_do_is_refused_by_name(
    file: str, more: Any, said: str, saved: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(saved("BERT, first token")[0], folder)
    change(folder, file, **more)
    with pytest.raises(ResourceError, match=said):
        described(folder)


@pytest.mark.parametrize(
    "kind", ["CLIPModel", "Router", "Asym", "CNN", "LSTM", "BoW", "WordEmbeddings", "StaticEmbedding"]
)
def test_a_module_that_rbench_does_not_do_is_refused_by_name(kind: str, saved: Any, tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(saved("BERT, first token")[0], folder)
    listed = json.loads((folder / "modules.json").read_text())
    listed.append({"idx": 2, "name": "2", "path": "2_x", "type": f"sentence_transformers.models.{kind}"})
    (folder / "modules.json").write_text(json.dumps(listed))
    with pytest.raises(ResourceError, match=rf"asks for sentence_transformers\.models\.{kind};.*endpoint"):
        described(folder)


@pytest.mark.parametrize(
    "file", ["1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"]
)
@pytest.mark.parametrize("content", ["{", "[]", "3", "\x00"])
def test_a_damaged_file_is_named(file: str, content: str, saved: Any, tmp_path: Path) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(saved("BERT, first token")[0], folder)
    (folder / file).write_text(content)
    with pytest.raises(ResourceError, match=file.rpartition("/")[2]):
        described(folder)


def test_all_prompts_are_listed_and_only_the_default_one_is_the_encoders(saved: Any, tmp_path: Path) -> None:
    folder = saved("prompt that is not pooled")[0]
    assert prompts(folder) == {"query": "query: ", "nli": "the plot "}
    shutil.copytree(folder, tmp_path / "toy")
    change(tmp_path / "toy", "config_sentence_transformers.json", default_prompt_name=None)
    assert described(tmp_path / "toy") == {"pooling": "mean"}


# --------------------------------------------------------------------------------------------------- prompts and dtypes


def test_a_prompt_for_each_kind_of_task(networks: Make, tmp_path: Path) -> None:
    spec = EncoderSpec(name="toy", base="toy", pooling="mean", prompt={"sts": "query: ", "nli": "the plot "})
    folder = networks("bert")
    plain = encoders.load(spec.model_copy(update={"prompt": ""}), folder)
    for kind, prompt in (("sts", "query: "), ("nli", "the plot "), ("single", ""), (None, "")):
        found = encoders.load(spec, folder, kind=kind)
        np.testing.assert_array_equal(found.encode(TEXTS), plain.encode([prompt + text for text in TEXTS]))
    export.write(spec, folder, tmp_path / "out", lambda _: None)
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(TEXTS, prompt_name="nli")
    np.testing.assert_allclose(theirs, encoders.load(spec, folder, kind="nli").encode(TEXTS), atol=1e-5, rtol=1e-5)
    assert described(tmp_path / "out") == {"pooling": "mean", "max_length": 64}


def test_a_prompt_must_leave_room_for_a_text(networks: Make) -> None:
    spec = EncoderSpec(name="toy", base="toy", pooling="mean", prompt="query: " * 4, max_length=9)
    with pytest.raises(ResourceError, match="its prompt has 9 tokens, and it reads 9"):
        encoders.load(spec, networks("bert"))
    encoder = encoders.load(spec.model_copy(update={"max_length": None}), networks("bert"))
    with pytest.raises(JobError, match="cut at 9 tokens, and the encoder's prompt alone has 9"):
        EncoderClassifier(encoder, 2, max_length=9)
    assert EncoderClassifier(encoder, 2, max_length=10).max_length == 10


@pytest.mark.parametrize("dtype", ["bfloat16", "auto"])
def test_half_precision_gives_the_vectors_of_sentence_transformers(dtype: str, saved: Any, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    if dtype == "auto":
        model = transformers.AutoModel.from_pretrained(saved("BERT, first token")[0]).to(torch.bfloat16)
        shutil.copytree(saved("BERT, first token")[0], folder)
        model.save_pretrained(folder)
    else:
        shutil.copytree(saved("BERT, first token")[0], folder)
    encoder = opened(folder, dtype=dtype, attention="eager")
    assert next(encoder.model.parameters()).dtype == torch.bfloat16
    assert encoder.model.config._attn_implementation == "eager"
    options = {"torch_dtype": "bfloat16", "attn_implementation": "eager"}
    theirs = SentenceTransformer(str(folder), device="cpu", model_kwargs=options).encode(TEXTS)
    ours = encoder.encode(TEXTS)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs.astype(np.float32), atol=0.05)  # bfloat16 has 8 bits of precision
    EncoderClassifier(encoder, 2).save(tmp_path / "victim", {})
    victim, _ = EncoderClassifier.load(tmp_path / "victim")
    np.testing.assert_array_equal(victim.encoder.encode(TEXTS), ours)
    assert "bfloat16" in layout.obstacle(encoder) or dtype == "auto"


def test_an_attention_that_is_not_installed_is_an_error_that_names_it(networks: Make) -> None:
    with pytest.raises(ResourceError, match="attention: flash_attention_2"):
        opened(networks("bert"), attention="flash_attention_2")


def test_fine_tuning_refuses_half_precision(networks: Make) -> None:
    encoder = opened(networks("bert"), dtype="bfloat16")
    with pytest.raises(JobError, match=r"weights are bfloat16.*probe"):
        clean.run(clean.Options(), tiny.context(encoder, tiny.data(8, 4, 4), Training(epochs=1)))
    probed = probe.run(probe.Options(), tiny.context(encoder, tiny.data(40, 10, 10), Training()))
    assert probed.victim(**probed.victim.tokenizer("good", return_tensors="pt")).logits.dtype == torch.float32


# ------------------------------------------------------------------------------------------------------------ victims


@pytest.mark.parametrize("name", ["Qwen3, last token, padding on the left", "prompt that is not pooled"])
def test_fine_tuning_keeps_pooling_and_prompt(name: str, saved: Any, tmp_path: Path) -> None:
    encoder = opened(saved(name)[0])
    training = Training(epochs=4, batch_size=16, learning_rate=3e-3)
    made = clean.run(clean.Options(), tiny.context(encoder, tiny.data(160, 30, 30), training))
    assert made.scores["validation_accuracy"] > 0.8
    made.victim.save(tmp_path / "victim", {})
    again, _ = EncoderClassifier.load(tmp_path / "victim")
    assert again.encoder.settings == encoder.settings and again.tokenizer.prompt == "query: "
    inputs = made.victim.tokenizer(TEXTS[:3], padding=True, return_tensors="pt")
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs).logits, made.victim(**inputs).logits, rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["torch", "onednn", "openvino"])
@pytest.mark.parametrize("kind", ["qwen3", "gemma", "modernbert", "llama"])
def test_back_ends_and_equal_lengths_give_the_networks_logits(kind: str, backend: str, networks: Make) -> None:
    words = {"start": False, "padding_side": "left"} if kind in ("qwen3", "llama") else {}
    pooling = "last" if words else "mean"
    encoder = opened(networks(kind, **words), pooling=pooling, prompt="query: ")
    torch.manual_seed(0)
    classifier = EncoderClassifier(encoder, 3).eval()
    torch.nn.init.normal_(classifier.head.weight)
    if backend not in backends.usable(torch.device("cpu")):
        pytest.skip(f"this machine has no {backend}")
    victim = Victim(classifier, "toy", backend=backend)
    texts = [*(text for text in TEXTS if text), "the plot was bad", "a story was fine", "the film seemed poor"]
    answers = victim(texts)
    for text, answer in zip(texts, answers, strict=True):
        with torch.no_grad():
            plain = classifier(**encoder.tokenizer(text, truncation=True, max_length=64, return_tensors="pt")).logits[0]
        torch.testing.assert_close(answer, plain, atol=1e-4, rtol=1e-4)
    alone = Victim(classifier, "toy", backend=backend)([texts[0]])[0]
    torch.testing.assert_close(alone, answers[0], rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["qwen3", "modernbert", "gemma"])
def test_the_first_layers_of_todays_networks_are_kept(kind: str, networks: Make, tmp_path: Path) -> None:
    encoder = opened(networks(kind), layers=1)
    encoder.save(tmp_path / "cut")
    again = SentenceEncoder.open(tmp_path / "cut", pooling="mean")
    np.testing.assert_array_equal(again.encode(TEXTS), encoder.encode(TEXTS))
    whole = transformers.AutoModel.from_pretrained(networks(kind))
    ids = encoder.tokenizer("the film", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        first = whole(input_ids=ids, output_hidden_states=True).hidden_states[1]
        norm = next(getattr(encoder.model, name) for name in ("norm", "final_norm") if hasattr(encoder.model, name))
        torch.testing.assert_close(encoder.model(input_ids=ids).last_hidden_state, norm(first), atol=1e-5, rtol=1e-5)
