"""Classifiers of the layouts that people ship, from tiny networks with random weights, as transformers saves them.

docs/layouts.md lists them; `tests/test_doors.py` holds its table.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import transformers
from tokenizers import processors
from torch import Tensor

from rbench.encoders.architecture import build_embedded_tokenizer

LABELS = ("negative", "positive")
TEXTS = (
    "the film was good and the music was a joy",
    "I liked the superb story of this funny film, and its cast was fine.",
)
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
HEADED = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
PAD, CLS, SEP = "[PAD]", "[CLS]", "[SEP]"
AROUND = f"{CLS} $A {SEP}"


class Layout(NamedTuple):
    """A model with its tokenizer, and how many tokens of a text it reads."""

    model: Any
    tokenizer: Any
    longest: int

    def by_hand(self, texts: Sequence[str]) -> Tensor:
        """The logits of each text by one forward for it alone, as the authors of a model compute them."""
        takes, model = inspect.signature(self.model.forward).parameters, self.model
        if model.dtype != torch.float32:
            model = copy.deepcopy(model).float()
        with torch.inference_mode():
            rows = [
                self.tokenizer(text, truncation=True, max_length=self.longest, return_tensors="pt") for text in texts
            ]
            read = [{name: value for name, value in row.items() if name in takes} for row in rows]
            return torch.cat([model(**row).logits for row in read])

    def served(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """What a server of the model answers: for each text the probabilities, or what stands for them, by label."""
        logits, config = self.by_hand(texts).double(), self.model.config
        apart = config.num_labels == 1 or config.problem_type == "multi_label_classification"
        rows = logits.sigmoid() if apart else logits.softmax(1)
        return [{config.id2label[i]: value for i, value in enumerate(row)} for row in rows.tolist()]

    def state(self) -> tuple[Any, ...]:
        """What must not change while the model is attacked."""
        tokenizer, weights = self.tokenizer, self.model.state_dict().values()
        return (
            str(self.model.config.to_dict()),
            *(tokenizer.pad_token, tokenizer.padding_side, tuple(tokenizer.model_input_names), self.model.training),
            tuple((weight.dtype, float(weight.double().sum())) for weight in weights),
        )


Make = Callable[[], Layout]


def words(around: str = AROUND, pad: bool = True, types: bool = False, **more: Any) -> Any:
    """The embedded world's words, with other tokens around a text, with or without a token that pads."""
    plain = build_embedded_tokenizer()
    core = copy.deepcopy(plain.backend_tokenizer)
    ids = {name: plain.convert_tokens_to_ids(name) for name in (CLS, SEP)}
    core.post_processor = processors.TemplateProcessing(single=around, special_tokens=[*ids.items()])
    inputs = ["input_ids", *(["token_type_ids"] if types else []), "attention_mask"]
    named = {"unk_token": "[UNK]", "bos_token": CLS, "eos_token": SEP, "cls_token": CLS, "sep_token": SEP}
    named |= {"mask_token": "[MASK]"} | ({"pad_token": PAD} if pad else {})
    return transformers.PreTrainedTokenizerFast(tokenizer_object=core, model_input_names=inputs, **named, **more)


def of(kind: str, tokenizer: Callable[[], Any], longest: int, half: bool = False, **more: Any) -> Make:
    """A layout with a network of a kind of transformers; `more` are keys of its configuration, `half` its precision."""

    def make() -> Layout:
        reads = tokenizer()
        own = {"vocab_size": len(reads), **more}
        config = transformers.AutoConfig.for_model(kind, **{**HEADED, **own})
        if "pad_token_id" not in more:
            config.pad_token_id = reads.pad_token_id
        model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
        torch.manual_seed(0)  # only now: how many numbers a network's first weights take depends on transformers
        with torch.no_grad():  # so wild that words matter
            for _, weight in sorted(model.named_parameters()):
                if weight.ndim > 1:
                    weight.normal_(std=0.3)
        return Layout(model.bfloat16() if half else model, reads, longest)

    return make


DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64, "max_position_embeddings": 64}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
CAUSAL = {**SIZES, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 64}
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2}
POSITIONS = {**SIZES, "max_position_embeddings": 64}
CANINE = {
    **SIZES,
    "max_position_embeddings": 256,
    "num_hash_functions": 4,
    "num_hash_buckets": 256,
    "local_transformer_stride": 16,
    "downsampling_rate": 4,
}
LAYOUTS: dict[str, Make] = {
    "BERT": of("bert", lambda: words(types=True), 64, **POSITIONS),
    "BERT in bfloat16": of("bert", lambda: words(types=True), 64, half=True, **POSITIONS),
    "BERT, tokenizer pads on the left": of("bert", lambda: words(padding_side="left"), 64, **POSITIONS),
    "DistilBERT, tokenizer gives token types": of("distilbert", lambda: words(types=True), 64, **DISTIL),
    "RoBERTa": of("roberta", words, 62, pad_token_id=1, **{**POSITIONS, "max_position_embeddings": 64}),
    "RoBERTa, fewer positions than tokens": of(
        "roberta", words, 10, pad_token_id=1, **{**SIZES, "max_position_embeddings": 12}
    ),
    "XLM-RoBERTa": of("xlm-roberta", words, 62, pad_token_id=1, **POSITIONS),
    "MPNet": of("mpnet", words, 62, pad_token_id=1, **POSITIONS),
    "ALBERT": of("albert", lambda: words(types=True), 64, embedding_size=16, **POSITIONS),
    "ELECTRA": of("electra", lambda: words(types=True), 64, embedding_size=16, **POSITIONS),
    "DeBERTa": of(
        "deberta-v2",
        lambda: words(types=True),
        64,
        type_vocab_size=0,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        **POSITIONS,
    ),
    "ModernBERT": of("modernbert", words, 64, global_attn_every_n_layers=2, local_attention=8, **POSITIONS),
    "XLNet": of(
        "xlnet",
        lambda: words(around=f"$A {SEP} {CLS}", types=True, padding_side="left"),
        512,
        d_model=32,
        n_layer=2,
        n_head=2,
        d_inner=64,
    ),
    "T5": of("t5", lambda: words(around=f"$A {SEP}"), 512, eos_token_id=3, decoder_start_token_id=0, **T5),
    "ByT5": of("t5", transformers.ByT5Tokenizer, 512, eos_token_id=1, pad_token_id=0, decoder_start_token_id=0, **T5),
    "GPT-2, no padding token": of("gpt2", lambda: words(around="$A", pad=False), 64, pad_token_id=None, **GPT2),
    "GPT-2, padding token": of("gpt2", lambda: words(around="$A"), 64, **GPT2),
    "Qwen3, no padding token": of(
        "qwen3", lambda: words(around="$A", pad=False, padding_side="left"), 64, pad_token_id=None, **CAUSAL
    ),
    "Qwen3, padding token": of("qwen3", lambda: words(around="$A", padding_side="left"), 64, **CAUSAL),
    "Llama, texts end with the token that would pad": of(
        "llama", lambda: words(pad=False), 64, pad_token_id=None, **CAUSAL
    ),
    "Gemma": of("gemma", words, 64, **CAUSAL),
    "CANINE": of("canine", lambda: transformers.CanineTokenizer(model_max_length=256), 256, **CANINE),
}

ONE = {"id2label": {0: "score"}, "label2id": {"score": 0}}
EVERY = ("folder", "pair", "pipeline", "TextAttack's wrapper")
REFUSED: dict[str, tuple[Make, dict[str, str]]] = {
    "one logit (sigmoid, or a score)": (
        of("bert", lambda: words(types=True), 64, **POSITIONS, **ONE),
        {**dict.fromkeys(EVERY, "1 labels"), "endpoint": "labels"},
    ),
    "several labels for one text": (
        of("bert", lambda: words(types=True), 64, problem_type="multi_label_classification", **POSITIONS),
        {**dict.fromkeys(EVERY, "several labels|multi_label"), "endpoint": "no probabilities"},
    ),
}
"""By layout: what the refusal at each door says."""
