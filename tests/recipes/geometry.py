"""The attacks `geometry` and `random` on toy victims, and what they compute, for one text by itself."""

from __future__ import annotations

import torch
from torch import nn

from rbench.config.code import find
from rbench.recipes import _textattack
from tests.recipes import substitution_toy as toy


def build_attack(victim, kind="bert", name="geometry", **options):
    module = find("attacks", name).open()
    return module.build(victim, toy.resources(kind), module.Options(**options), None)


def predict_label(victim, text):
    return int(victim([text])[0].argmax())


def split_words(text):
    return _textattack.textattack.shared.utils.words_from_text(text)


def encode_text(classifier, text):
    with torch.no_grad():
        return classifier.encoder(**classifier.tokenizer(text, return_tensors="pt"))[0]


def compute_gradients(classifier, text, label):
    """z, the gradient of the cross-entropy at z, and the gradients at the pieces of each word."""
    inputs = classifier.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = inputs.pop("offset_mapping")[0].tolist()
    embeddings = classifier.get_input_embeddings()(inputs.pop("input_ids")).detach().requires_grad_()
    z = classifier.encoder(inputs_embeds=embeddings, **inputs)
    z.retain_grad()
    nn.functional.cross_entropy(classifier.head(z).double(), torch.tensor([label])).backward()
    pieces, end = [], 0
    for word in split_words(text):
        start = text.index(word, end)
        end = start + len(word)
        pieces.append(embeddings.grad[0, [k for k, (a, b) in enumerate(offsets) if a < end and b > start and b > a]])
    return z[0].detach().double(), z.grad[0].double(), pieces


def find_changed_words(result):
    return result.original_result.attacked_text.all_words_diff(result.perturbed_result.attacked_text)
