"""Implements the Geometry search as in its pseudocode: one text, one word and one candidate at a time.

`geometry.py` compares the speed of `rbench/words/substitution/batched.py` with it.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch
from torch import Tensor

from rbench.words.substitution.batched import at_most
from rbench.words.substitution.segmentation import find_words


class Plain:
    """Runs Algorithm 1 line by line on one text, without batches and without omitting any step of the pseudocode."""

    def __init__(self, task: Any, min_cosine: float) -> None:
        self.task, self.args, self.min_cosine = task, task.args, min_cosine
        self.model, self.tokenizer = task.args.found.masked_lm.model, task.args.found.masked_lm.tokenizer
        self.vectors, self.stopwords = task.args.found.word_vectors, task.args.found.stopwords
        self.encoder = task.encoder.eval()

    def __call__(self, row: int) -> str:
        text, touched = self.args.texts[row], set[int]()
        budget = at_most(self.args.max_words, self.args.share)(len(find_words((text,))))
        for _ in range(budget):
            z, v, norms = self.gradients(text, row)
            found: list[str] = []
            for place in sorted(norms, key=lambda place: -norms[place]):
                _, start, end = find_words((text,))[place]
                if place in touched or text[start:end].lower() in self.stopwords:
                    continue
                touched.add(place)
                if found := self.candidates(text, start, end):
                    break
            if not found:
                break
            others = [text[:start] + word + text[end:] for word in found]
            text = max(others, key=lambda other: float((self.z(other) - z) @ v))
        return text

    def z(self, text: str) -> Tensor:
        with torch.no_grad():
            z: Tensor = self.task.head(self.encoder(**self.tokens(text).to(self.args.device)))[0]
        return z

    def tokens(self, text: str, **more: bool) -> Any:
        return self.encoder.tokenizer(
            text, truncation=True, max_length=self.args.max_length, return_tensors="pt", **more
        )

    def gradients(self, text: str, row: int) -> tuple[Tensor, Tensor, dict[int, float]]:
        """Return z, v_z, and the norm of each word's mean gradient."""
        inputs = self.tokens(text, return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        inputs = inputs.to(self.args.device)
        table = self.encoder.model.get_input_embeddings()
        embeddings = table(inputs.pop("input_ids")).detach().requires_grad_()
        z = self.task.head(self.encoder(inputs_embeds=embeddings, **inputs))
        v, G = torch.autograd.grad(self.task.loss(z, [row]).sum(), (z, embeddings))
        norms = {}
        for place, (_, start, end) in enumerate(find_words((text,))):
            pieces = [k for k, (a, b) in enumerate(offsets) if a < end and b > start]
            if pieces:
                norms[place] = float(G[0, pieces].mean(dim=0).norm())
        return z[0].detach(), v[0], norms

    def candidates(self, text: str, start: int, end: int) -> list[str]:
        """Return the masked LM's predictions for a word: lower-case whole words, filtered by cosine, then capped."""
        word = text[start:end]
        masked = text[:start] + self.tokenizer.mask_token + text[end:]
        inputs = self.tokenizer(masked, return_tensors="pt", truncation=True).to(self.args.device)
        place = inputs["input_ids"][0].tolist().index(self.tokenizer.mask_token_id)
        with torch.no_grad():
            order = self.model(**inputs).logits[0, place].argsort(descending=True).tolist()
        ranked = (other for other in map(self.tokenizer.convert_ids_to_tokens, order) if other.isalpha())
        best = [other for other in islice(ranked, 4 * self.args.candidates) if other != word.lower()]
        cosines = {other: self.vectors.cosine(word.lower(), other) for other in best}
        kept = [other for other in best if (cosine := cosines[other]) is not None and cosine >= self.min_cosine]
        kept = kept[: self.args.candidates]
        if word.islower():
            return kept
        return [other.upper() if word.isupper() and len(word) > 1 else other.capitalize() for other in kept]
