"""A masked language model that gives the most probable words at a position of a text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rbench.encoders.foreign import as_resource_error, check_model, check_size
from rbench.encoders.inference import BatchedModel, BoundedMemo, Network, RowTokenizer, TokenRow, backends
from rbench.errors import ResourceError

VERSION = 1

CACHE_BYTES = 256 << 20
"""Size limit of the cache of answers, and of the cache of hidden states."""
HEAD_ATTRIBUTES = {"bert": "cls", "roberta": "lm_head"}
"""The attribute with the masked-LM head, by type of model. A known head runs only on the states that are needed."""
STATES_AT_ONCE = 256
"""Number of states that are turned into vocabulary logits at once; each gives some 30,000 numbers."""


class MaskQuestion(NamedTuple):
    """Asks for the `k` most probable tokens at position `place` of a row.

    `by` says what is ranked: `logits` or `probabilities` of all tokens, or the logits of `words`, the tokens that are
    one whole alphabetic word. Ranking by logits and by probabilities may differ, because distinct logits may round to
    equal probabilities.
    """

    row: TokenRow
    place: int
    k: int
    by: Literal["logits", "probabilities", "words"]


class RankedTokens(NamedTuple):
    """The `k` best tokens, best first."""

    ids: list[int]
    """Token ids; for `words`, indices into `MaskedLM.whole_words`."""
    values: list[float]
    """The logits or probabilities that were ranked."""


class MaskedLM:
    """A masked language model: `model` (in eval mode, float32, on its device) with its `tokenizer`.

    Callers may cache their own results in `memo`, under a key that identifies the question.

    Args:
        model: a transformers model with a masked-LM head.
        tokenizer: its tokenizer, which must have a mask token.
        name: for messages.
        device: where `model` is.
        backend: what computes it, one of `rbench.encoders.inference.BACKENDS` or "auto".
        step: as in `rbench.encoders.inference.Network`.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        name: str,
        *,
        device: str = "cpu",
        backend: str = "auto",
        step: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.device, self._backend, self._step = device, backend, step
        self._tokenize = RowTokenizer(tokenizer)
        self.memo: BoundedMemo[tuple[Any, ...], Any] = BoundedMemo(
            CACHE_BYTES,  # an answer is a list of words or numbers
            lambda key, value: 400 + 8 * sum(len(x) if isinstance(x, str) else 10 for x in key) + 60 * len(value),
        )
        self.ranked: BatchedModel[MaskQuestion, RankedTokens] = BatchedModel(self._rank)
        """Answers questions. Several attacks share a batch."""
        self._states: BoundedMemo[TokenRow, Tensor] = BoundedMemo(
            CACHE_BYTES, lambda row, states: 400 + 4 * states.numel()
        )
        self._head: Any = getattr(model, HEAD_ATTRIBUTES.get(model.config.model_type, ""), None)
        self._body: Any = model if self._head is None else model.base_model
        self._takes_types = "token_type_ids" in inspect.signature(self._body.forward).parameters

    @classmethod
    def open(cls, folder: Path, device: str, backend: str = "auto") -> MaskedLM:
        """Read a transformers folder with a masked-LM head.

        Raises:
            ResourceError: it cannot be read, or lacks weights of the head (transformers would make them random).
        """
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        check_model(folder)
        with as_resource_error(f"masked LM {folder.name}: {folder} cannot be read"):
            check_size(folder, AutoModelForMaskedLM)
            model, loading = AutoModelForMaskedLM.from_pretrained(
                folder, output_loading_info=True, trust_remote_code=False
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        missing = sorted(set(loading["missing_keys"]) - set(getattr(model, "_tied_weights_keys", None) or ()))
        if missing:
            raise ResourceError(
                f"masked LM {folder.name}: {folder} lacks the weights {', '.join(missing[:3])}"
                f"{' ...' if len(missing) > 3 else ''}; it is not a masked language model"
            )
        return cls(model.float().eval().to(device), tokenizer, folder.name, device=device, backend=backend)

    def forget(self) -> None:
        """Forget all answers and hidden states."""
        self.memo.clear()
        self._states.clear()

    def padded(self, step: int) -> MaskedLM:
        """Return the same model with batches whose lengths are rounded up to a multiple of `step`."""
        return MaskedLM(self.model, self.tokenizer, self.name, device=self.device, backend=self._backend, step=step)

    def rows(self, texts: Sequence[str], max_length: int) -> list[TokenRow]:
        """Return the token ids of each text, cut at `max_length` tokens."""
        return self._tokenize(texts, max_length)

    @cached_property
    def network(self) -> Network:
        """Maps rows to their last hidden states (tokens, dim), or to logits if HEADS does not list the model's type."""
        return Network(
            self._body,
            self._first,
            tokenizer=self.tokenizer,
            name=f"masked LM {self.name}",
            device=self.device,
            backend=self._backend,
            step=self._step,
        )

    def perplexities(self, texts: Sequence[str], max_length: int = 512) -> list[float]:
        """Return the pseudo-perplexity of each text (Salazar et al. 2020): each of its tokens is masked once, and the
        probability that the others give it counts. Texts are cut at `max_length` tokens."""
        special, values = set(self.tokenizer.all_special_ids), []
        for ids, types in self.rows(texts, max_length):
            places = [i for i, token in enumerate(ids) if token not in special]
            rows = [((*ids[:i], self.tokenizer.mask_token_id, *ids[i + 1 :]), types) for i in places]
            states = [row_states[i] for row_states, i in zip(self.network(rows), places, strict=True)]
            logs = self._to_logits(torch.stack(states)).float().log_softmax(dim=1) if places else torch.zeros(1, 1)
            log_probabilities = logs[
                torch.arange(len(places)), torch.tensor([ids[i] for i in places], dtype=torch.int64)
            ]
            values.append(float(torch.exp(-log_probabilities.mean())))
        return values

    @cached_property
    def whole_words(self) -> tuple[list[int], list[str]]:
        """The token ids that are one whole alphabetic word, in order of id, and their words."""
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        marker = next((m for m in ("Ġ", "▁") if any(t.startswith(m) and len(t) > 1 for t in vocabulary)), "")
        special = set(self.tokenizer.all_special_ids)
        ids, words = [], []
        for token, k in sorted(vocabulary.items(), key=lambda item: item[1]):
            if k in special or not token.startswith(marker):
                continue
            word = self.tokenizer.convert_tokens_to_string([token]).strip() if marker else token
            if word.isalpha():
                ids.append(k)
                words.append(word)
        return ids, words

    @cached_property
    def _whole_word_ids(self) -> Tensor:
        return torch.tensor(self.whole_words[0], device=self.device)

    @cached_property
    def _to_logits(self) -> Callable[[Tensor], Tensor]:
        """Maps states (n, dim) to vocabulary logits (n, vocabulary), with the linear layers of the back-end."""
        if self._head is None:
            return lambda states: states
        device = torch.device(self.device)
        wanted_backend = "onednn" if self.network.backend == "openvino" else self.network.backend
        backend = wanted_backend if wanted_backend in backends.usable(device) else "torch"
        _, call = backends.choose_backend(self._head, lambda head, states: head(states), device=device, wanted=backend)
        return lambda states: call({"states": states})

    def _rank(self, questions: list[MaskQuestion]) -> list[RankedTokens]:
        states = self._read(questions)
        answers: dict[MaskQuestion, RankedTokens] = {}
        # Grouped by what is ranked and how many: each group is one call of the head and one topk.
        kinds = dict.fromkeys((question.by, question.k) for question in questions)
        for by, k in kinds:
            same_kind = [question for question in questions if (question.by, question.k) == (by, k)]
            for start in range(0, len(same_kind), STATES_AT_ONCE):
                chunk = same_kind[start : start + STATES_AT_ONCE]
                answers.update(
                    zip(chunk, self._rank_states([states[q.row, q.place] for q in chunk], by, k), strict=True)
                )
        return [answers[question] for question in questions]

    def _rank_states(self, states: list[Tensor], by: str, k: int) -> list[RankedTokens]:
        values = self._to_logits(torch.stack(states)).float()
        if by == "probabilities":
            values = torch.softmax(values, dim=1)
        elif by == "words":
            values = values[:, self._whole_word_ids]
        best = torch.topk(values, min(k, values.shape[1]), dim=1)
        return [RankedTokens(*pair) for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)]

    def _read(self, questions: list[MaskQuestion]) -> dict[tuple[TokenRow, int], Tensor]:
        """Return the state of each question, by row and place.

        Rows that are asked word by word (`logits`, BERT-Attack) keep their states in a cache.
        """
        rows = {q.row: self._states.get(q.row) for q in questions if q.place < len(q.row[0])}
        unread = [row for row, states in rows.items() if states is None]
        rows |= dict(zip(unread, self.network(unread), strict=True))
        for question in questions:
            if question.by == "logits" and (states := rows.get(question.row)) is not None:
                self._states.put(question.row, states)
        state_of_question = {}
        for question in questions:
            states = rows[question.row] if question.place < len(question.row[0]) else self._read_padded(question)
            assert states is not None
            state_of_question[question.row, question.place] = states[question.place]
        return state_of_question

    def _read_padded(self, question: MaskQuestion) -> Tensor:
        """Return the states of a row with so much padding that it includes the question's place."""
        ids, types = question.row
        width = question.place + 1
        pad, pad_type = self.network.pad
        inputs = {
            "input_ids": torch.tensor([[*ids, *[pad] * (width - len(ids))]]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids))]),
        }
        if types is not None:
            inputs["token_type_ids"] = torch.tensor([[*types, *[pad_type] * (width - len(types))]])
        with torch.inference_mode():
            return self._first(self._body, **{name: tensor.to(self.device) for name, tensor in inputs.items()})[0]

    def _first(self, body: Any, **inputs: Tensor) -> Tensor:
        if not self._takes_types:  # for example DistilBERT
            inputs.pop("token_type_ids", None)
        states: Tensor = body(**inputs)[0]
        return states
