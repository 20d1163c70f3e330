"""Adversarial replaced-token detection (RobustSentEmbed, Asl et al. 2024, section 3.2, equation 8)."""

from __future__ import annotations

from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from rbench.train.heads import vocabulary_head

VERSION = 1


class ReplacedTokenDetection(nn.Module):
    """A frozen generator G that edits sentences, and a discriminator D that detects the edits and sees h = f(x).

    D reads X'' + eta, where X'' are D's own word embeddings of the edited sentence. h replaces the first token: the
    paper says that D sees h, but not where (ours). Gradients reach f only through h. Edits are found by comparing token
    ids, because equation 8 compares perturbed embeddings, of which no two are equal.

    Args:
        generator: a transformers masked LM. Its weights are not trained, and it is always in eval mode.
        discriminator: a transformers network without a head, as wide as f.
        mask_id: the id of the mask token.
        masking: share of words that are masked for G, 0..1.
        reduction: `sum` over tokens and batch, as printed, or their `mean`.
        classes: 1: a score of "original" for each token, under the sigmoid of equation 8. 2: a score of "replaced" and
            one of "original", under a softmax.
        sample: what replaces a masked word: a `draw` from G's distribution, or its most likely word (`argmax`).
    """

    def __init__(
        self,
        generator: Any,
        discriminator: Any,
        *,
        mask_id: int,
        masking: float,
        reduction: Literal["sum", "mean"],
        classes: Literal[1, 2] = 1,
        sample: Literal["draw", "argmax"] = "draw",
    ) -> None:
        super().__init__()
        self.generator = generator.requires_grad_(False)
        self.discriminator = discriminator
        self.original = nn.Linear(int(discriminator.config.hidden_size), classes)
        self._mask_id, self._masking, self._reduction, self._sample = mask_id, masking, reduction, sample

    def train(self, mode: bool = True) -> Self:
        """Set the mode of D. G stays in eval mode."""
        super().train(mode)
        self.generator.eval()
        return self

    @torch.no_grad()
    def edit(self, ids: Tensor, mask: Tensor, words: Tensor) -> Tensor:
        """Return x'' = G(MLM(x)): masked words are replaced by words from G, which may be the words themselves."""
        masked = (torch.rand(ids.shape, device=ids.device) < self._masking) & (words.squeeze(-1) > 0)
        edited = ids.clone()
        if masked.any():
            logits = self._scores(ids.masked_fill(masked, self._mask_id), mask, masked)
            if self._sample == "argmax":
                edited[masked] = logits.argmax(-1)
            else:
                edited[masked] = torch.multinomial(logits.float().softmax(-1), 1).squeeze(-1)
        return edited

    def _scores(self, ids: Tensor, mask: Tensor, masked: Tensor) -> Tensor:
        """Return G's vocabulary logits for the masked tokens only."""
        head = vocabulary_head(self.generator)
        if head is None:
            logits: Tensor = self.generator(input_ids=ids, attention_mask=mask).logits
            return logits[masked]
        scores: Tensor = head(self.generator.base_model(input_ids=ids, attention_mask=mask).last_hidden_state[masked])
        return scores

    def forward(self, ids: Tensor, mask: Tensor, words: Tensor, h: Tensor, eta: Tensor) -> Tensor:
        """Return L_RTD of equation 8 over the words of the batch.

        Args:
            ids, mask: token ids and attention mask of the sentences, (batch, length).
            words: 1 for tokens that are neither padding nor special, (batch, length, 1).
            h: what D sees of the sentence, (batch, D): f(x), or the head's output for it.
            eta: the token-level perturbation, (batch, length, D).
        """
        edited = self.edit(ids, mask, words)
        X_adv = self.discriminator.get_input_embeddings()(edited) + eta
        seen = torch.cat([h.unsqueeze(1).to(X_adv.dtype), X_adv[:, 1:]], dim=1)
        states = self.discriminator(inputs_embeds=seen, attention_mask=mask).last_hidden_state
        chosen = words.squeeze(-1) > 0
        same = (edited == ids)[chosen]
        logits = self.original(states)[chosen]
        logits = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
        if logits.shape[-1] == 1:
            scores = logits.squeeze(-1)
            total = functional.binary_cross_entropy_with_logits(scores, same.to(scores.dtype), reduction="sum")
        else:
            total = functional.cross_entropy(logits, same.long(), reduction="sum")
        return total if self._reduction == "sum" else total / max(1, len(logits))
