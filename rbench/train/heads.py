"""Heads that are used in training only, masked language modelling, and the detection of replaced tokens."""

from __future__ import annotations

from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional


class MLPHead(nn.Module):
    """A dense layer with tanh, (batch, dim) to (batch, dim) (SimCSE, Gao et al. 2021, section 6.3)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dense = nn.Linear(dim, dim)

    def forward(self, h: Tensor) -> Tensor:
        return torch.tanh(self.dense(h))


class BatchNormHead(nn.Module):
    """Two layers with batch normalisation, (batch, dim) to (batch, dim) (V-advCSE, Ko 2024, section 5).

    The paper says only that. Normalising both layers, ReLU between them and a last normalisation without weights are
    ours, after the projector of SimSiam (Chen and He 2021). Each view of a batch is normalised separately, so that a
    perturbation of zero changes nothing. RobustSentEmbed's public code has these layers with a hidden layer of twice
    the width: `widening` 2.
    """

    def __init__(self, dim: int, widening: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, widening * dim, bias=False),
            nn.BatchNorm1d(widening * dim),
            nn.ReLU(),
            nn.Linear(widening * dim, dim, bias=False),
            nn.BatchNorm1d(dim, affine=False),
        )

    def forward(self, h: Tensor) -> Tensor:
        z: Tensor = self.layers(h)
        return z


class ProjectionHead(nn.Module):
    """g of the ADCL paper (section 3.2, appendix F), (batch, dim) to (batch, out).

    It has a hidden layer with sigmoid, and an output layer with Tanh or without activation. The hidden layer is as wide
    as h (ours).

    Args:
        dim: numbers in h.
        out: numbers in z.
        tanh: whether the output has Tanh.
        hidden: whether there is the hidden layer; the authors' code has none.
        pooler: a dense layer (dim to dim), which comes first and is followed by tanh: BERT's pooler. None: no such.
    """

    def __init__(self, dim: int, out: int, *, tanh: bool, hidden: bool = True, pooler: nn.Linear | None = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *([] if pooler is None else [pooler, nn.Tanh()]),
            *([nn.Linear(dim, dim), nn.Sigmoid()] if hidden else []),
            nn.Linear(dim, out),
            nn.Tanh() if tanh else nn.Identity(),
        )

    def forward(self, h: Tensor) -> Tensor:
        z: Tensor = self.layers(h)
        return z


def vocabulary_head(masked_lm: Any) -> nn.Module | None:
    """Return the part of a transformers masked LM that maps hidden states to vocabulary logits; None if unknown."""
    return next((getattr(masked_lm, name) for name in ("cls", "lm_head") if hasattr(masked_lm, name)), None)


class MaskedLMLoss(nn.Module):
    """The masked-LM loss of a transformers model, with its head applied to the masked tokens only.

    The loss equals the model's own. On a tiny model, the logits of all tokens would cost as much as everything else.
    """

    def __init__(self, masked_lm: Any) -> None:
        super().__init__()
        self.masked_lm = masked_lm
        self._head = vocabulary_head(masked_lm)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return `loss`, a scalar: the mean cross-entropy over the tokens whose label is not -100."""
        if self._head is None:
            return {"loss": self.masked_lm(input_ids=input_ids, attention_mask=attention_mask, labels=labels).loss}
        states = self.masked_lm.base_model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return {"loss": masked_loss(self._head, states, labels)}


class MaskedBatches(nn.Module):
    """Mask each batch and pass it to `loss`.

    The collator does not mask, because a loader fetches ahead: a resumed run would then draw other masks.
    """

    def __init__(self, loss: MaskedLMLoss, collator: Any) -> None:
        super().__init__()
        self.loss = loss
        self._collator = collator

    def forward(self, input_ids: Tensor, attention_mask: Tensor, special_tokens_mask: Tensor) -> dict[str, Tensor]:
        """Return the `loss` of the batch with tokens masked."""
        ids, labels = masked(self._collator, input_ids, special_tokens_mask)
        out: dict[str, Tensor] = self.loss(ids, attention_mask, labels)
        return out


def as_single_precision(x: Tensor) -> Tensor:
    """Return `x`, in single precision where it has half or bf16."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def masked(collator: Any, ids: Tensor, special: Tensor) -> tuple[Tensor, Tensor]:
    """Return ids with tokens masked by transformers' collator, which uses torch's global CPU generator, and labels."""
    masked_ids, labels = collator.torch_mask_tokens(ids.cpu().clone(), special_tokens_mask=special.cpu())
    return masked_ids.to(ids.device), labels.to(ids.device)


def masked_loss(head: nn.Module, states: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy over the tokens whose label is not -100; 0 without such tokens.

    A loss that is not finite stays so: the training stops there.
    """
    is_masked = labels != -100
    logits = as_single_precision(head(states[is_masked]))
    if is_masked.any():
        return functional.cross_entropy(logits, labels[is_masked])
    # The sum of no logits is 0 and has a graph, so that the backward pass works as for any other batch.
    return logits.sum()


def detection_loss(logits: Tensor, classes: Tensor, reduction: Literal["mean", "sum"]) -> Tensor:
    """Return the cross-entropy over n tokens: CLINE's equation 4, RobustSentEmbed's equation 8.

    As a `sum`, both papers' form, it is about a thousand times their other losses.

    Args:
        logits: (n, 1) for two classes, with a sigmoid as in the papers; (n, k) for k classes, with a softmax.
        classes: class of each token (n,).
    """
    logits = as_single_precision(logits)
    if logits.shape[-1] == 1:
        flat = logits.squeeze(-1)
        total = functional.binary_cross_entropy_with_logits(flat, classes.to(flat.dtype), reduction="sum")
    else:
        total = functional.cross_entropy(logits, classes, reduction="sum")
    return total if reduction == "sum" else total / max(1, len(logits))


class ReplacedTokenDetection(nn.Module):
    """Adversarial replaced-token detection (RobustSentEmbed, Asl et al. 2024, section 3.2, equation 8).

    A frozen generator G edits sentences, and a discriminator D detects the edits and sees h = f(x).
    D reads X'' + eta, where X'' are D's own word embeddings of the edited sentence. h replaces the first token: the
    paper says that D sees h, but not where (ours). Gradients reach f only through h. Edits are found by comparing token
    ids, because equation 8 compares perturbed embeddings, of which no two are equal.

    Args:
        generator: a transformers masked LM. Its weights are not trained, and it is always in eval mode.
        discriminator: a transformers network without a head, as wide as f.
        options: those of `rbench.train.objectives.robustsentembed`.
        mask_id: the id of the mask token.
    """

    def __init__(self, generator: Any, discriminator: Any, options: Any, *, mask_id: int) -> None:
        super().__init__()
        self.generator = generator.requires_grad_(False)
        self.discriminator = discriminator
        self.original = nn.Linear(int(discriminator.config.hidden_size), options.classes)
        self._options, self._mask_id = options, mask_id

    def train(self, mode: bool = True) -> Self:
        """Set the mode of D. G stays in eval mode."""
        super().train(mode)
        self.generator.eval()
        return self

    @torch.no_grad()
    def edit(self, ids: Tensor, mask: Tensor, words: Tensor) -> Tensor:
        """Return x'' = G(MLM(x)): masked words are replaced by words from G, which may be the words themselves."""
        is_masked = (torch.rand(ids.shape, device=ids.device) < self._options.masking) & (words.squeeze(-1) > 0)
        edited = ids.clone()
        if is_masked.any():
            logits = self._scores(ids.masked_fill(is_masked, self._mask_id), mask, is_masked)
            if self._options.sample == "argmax":
                edited[is_masked] = logits.argmax(-1)
            else:
                edited[is_masked] = torch.multinomial(logits.float().softmax(-1), 1).squeeze(-1)
        return edited

    def _scores(self, ids: Tensor, mask: Tensor, masked: Tensor) -> Tensor:
        """Return G's vocabulary logits for the masked tokens only."""
        head = vocabulary_head(self.generator)
        if head is None:
            logits: Tensor = self.generator(input_ids=ids, attention_mask=mask).logits
            return logits[masked]
        states = self.generator.base_model(input_ids=ids, attention_mask=mask).last_hidden_state
        # The head alone is a large part of a small model's cost, so it reads the masked tokens only.
        scores: Tensor = head(states[masked])
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
        # Only the first token is replaced: its place is that of [CLS], which stands for the sentence.
        inputs = torch.cat([h.unsqueeze(1).to(X_adv.dtype), X_adv[:, 1:]], dim=1)
        states = self.discriminator(inputs_embeds=inputs, attention_mask=mask).last_hidden_state
        is_word = words.squeeze(-1) > 0
        # The generator may return the masked word itself, which is then `original` and not replaced.
        is_original = (edited == ids)[is_word]
        return detection_loss(self.original(states)[is_word], is_original.long(), self._options.detection)
