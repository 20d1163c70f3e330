"""A MarianMT model of a few thousand weights, with a vocabulary of its own."""

from __future__ import annotations

import io
import json
from pathlib import Path

import sentencepiece
import torch
import transformers

from tests.train.bases import TEXTS


def marian(folder: Path, seed: int = 0) -> Path:
    """Random weights: it writes nonsense, always the same."""
    folder.mkdir(parents=True)
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS), model_writer=written, vocab_size=40, minloglevel=2, hard_vocab_limit=False
    )
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes(written.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    names = [pieces.id_to_piece(k) for k in range(3, len(pieces))]  # after <unk>, <s>, </s>
    vocabulary = {name: k for k, name in enumerate(["</s>", "<unk>", *names, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 24}), encoding="utf-8")
    torch.manual_seed(seed)
    size, pad = len(vocabulary), len(vocabulary) - 1
    config = transformers.MarianConfig(
        vocab_size=size,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=24,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        init_std=0.5,
    )
    model = transformers.MarianMTModel(config)
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)
    return folder
