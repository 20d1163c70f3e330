"""An encoder with `lowercase: true` is trained on lower case, and is exported so that others read lower case, too."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from rbench import encoders
from rbench.encoders.model_metadata import read_fields
from rbench.execution.publish.encoder import write_encoder
from rbench.train.masked import MaskedEncoding
from tests.train import bases

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "The", "the", "A", "a", "Good", "good", "Film", "film", "was"]


@pytest.fixture
def cased(tmp_path: Path) -> Path:
    """A random BERT whose tokenizer keeps capital letters."""
    folder = tmp_path / "cased"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"), do_lower_case=False, model_max_length=32)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    torch.manual_seed(0)
    network = BertForMaskedLM(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_masked_lm_is_trained_on_lower_case(cased: Path) -> None:
    for lowercase, words in ((True, ["good", "film"]), (False, ["Good", "Film"])):
        spec = bases.spec("mlm", cased, "mean").model_copy(update={"lowercase": lowercase})
        ids = MaskedEncoding(spec, cased, 0.15).features("Good Film")["input_ids"]
        assert [WORDS[i] for i in ids[1:-1]] == words


def test_an_encoder_of_lower_case_is_exported(cased: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    spec = bases.spec("mlm", cased, "mean").model_copy(update={"lowercase": True, "train": None})
    write_encoder(spec, cased, tmp_path / "out", lambda folder: None)
    texts = ["Good Film", "good film"]
    theirs = SentenceTransformer(str(tmp_path / "out"), device="cpu").encode(texts)
    ours = encoders.load(spec, tmp_path / "out").encode(texts)
    assert read_fields(tmp_path / "out")["lowercase"] is True
    assert abs(theirs - ours).max() < 1e-5 and abs(theirs[0] - theirs[1]).max() < 1e-6
