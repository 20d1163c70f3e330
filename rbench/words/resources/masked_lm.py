"""A masked language model that gives the most probable words at a position of a text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from rbench.encoders.foreign import check_model, check_size, reading
from rbench.encoders.inference import Batched, Memo, Network, Row, backends, rows_of
from rbench.errors import ResourceError

VERSION = 1

CACHE_BYTES = 256 << 20
"""Size limit of the cache of answers, and of the cache of hidden states."""
HEADS = {"bert": "cls", "roberta": "lm_head"}
"""The attribute with the masked-LM head, by type of model. A known head runs only on the states that are needed."""
HEAD_ROWS = 256
"""Number of states that are turned into vocabulary logits at once; each gives some 30,000 numbers."""


class Question(NamedTuple):
    """Asks for the `k` most probable tokens at position `place` of a row.

    `by` says what is ranked: `logits` or `probabilities` of all tokens, or the logits of `words`, the tokens that are
    one whole alphabetic word. Ranking by logits and by probabilities may differ, because distinct logits may round to
    equal probabilities.
    """

    row: Row
    place: int
    k: int
    by: Literal["logits", "probabilities", "words"]


class Ranked(NamedTuple):
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

    Raises:
        ResourceError: the tokenizer has no mask token.
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
        if tokenizer.mask_token_id is None:
            raise ResourceError(f"masked LM {name}: its tokenizer has no mask token")
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.device, self._backend, self._step = device, backend, step
        self.memo: Memo[tuple[Any, ...], Any] = Memo(
            CACHE_BYTES,  # an answer is a list of words or numbers
            lambda key, value: 400 + 8 * sum(len(x) if isinstance(x, str) else 10 for x in key) + 60 * len(value),
        )
        self.ranked: Batched[Question, Ranked] = Batched(self._rank)
        """Answers questions. Several attacks share a batch."""
        self._states: Memo[Row, Tensor] = Memo(CACHE_BYTES, lambda row, states: 400 + 4 * states.numel())
        self._head: Any = getattr(model, HEADS.get(model.config.model_type, ""), None)
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
        with reading(f"masked LM {folder.name}: {folder} cannot be read"):
            check_size(folder, AutoModelForMaskedLM)
            model, info = AutoModelForMaskedLM.from_pretrained(
                folder, output_loading_info=True, trust_remote_code=False
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        lost = sorted(set(info["missing_keys"]) - set(getattr(model, "_tied_weights_keys", None) or ()))
        if lost:
            raise ResourceError(
                f"masked LM {folder.name}: {folder} lacks the weights {', '.join(lost[:3])}"
                f"{' ...' if len(lost) > 3 else ''}; it is not a masked language model"
            )
        return cls(model.float().eval().to(device), tokenizer, folder.name, device=device, backend=backend)

    def forget(self) -> None:
        """Forget all answers and hidden states."""
        self.memo.clear()
        self._states.clear()

    def padded(self, step: int) -> MaskedLM:
        """Return the same model with batches whose lengths are rounded up to a multiple of `step`."""
        return MaskedLM(self.model, self.tokenizer, self.name, device=self.device, backend=self._backend, step=step)

    def rows(self, texts: Sequence[str], max_length: int) -> list[Row]:
        """Return the token ids of each text, cut at `max_length` tokens."""
        return rows_of(self.tokenizer(list(texts), max_length=max_length, truncation=True)) if texts else []

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
        special, found = set(self.tokenizer.all_special_ids), []
        for ids, types in self.rows(texts, max_length):
            places = [i for i, token in enumerate(ids) if token not in special]
            rows = [((*ids[:i], self.tokenizer.mask_token_id, *ids[i + 1 :]), types) for i in places]
            states = [one[i] for one, i in zip(self.network(rows), places, strict=True)]
            logs = self._to_logits(torch.stack(states)).float().log_softmax(dim=1) if places else torch.zeros(1, 1)
            own = logs[torch.arange(len(places)), torch.tensor([ids[i] for i in places], dtype=torch.int64)]
            found.append(float(torch.exp(-own.mean())))
        return found

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
    def _whole_ids(self) -> Tensor:
        return torch.tensor(self.whole_words[0], device=self.device)

    @cached_property
    def _to_logits(self) -> Callable[[Tensor], Tensor]:
        """Maps states (n, dim) to vocabulary logits (n, vocabulary), with the linear layers of the back-end."""
        if self._head is None:
            return lambda states: states
        device = torch.device(self.device)
        wanted = "onednn" if self.network.backend == "openvino" else self.network.backend
        name = wanted if wanted in backends.usable(device) else "torch"
        _, call = backends.ready(self._head, lambda head, states: head(states), device=device, wanted=name)
        return lambda states: call({"states": states})

    def _rank(self, questions: list[Question]) -> list[Ranked]:
        states = self._read(questions)
        answers: dict[Question, Ranked] = {}
        kinds = dict.fromkeys((question.by, question.k) for question in questions)
        for by, k in kinds:
            alike = [question for question in questions if (question.by, question.k) == (by, k)]
            for start in range(0, len(alike), HEAD_ROWS):
                part = alike[start : start + HEAD_ROWS]
                answers.update(zip(part, self._best([states[q.row, q.place] for q in part], by, k), strict=True))
        return [answers[question] for question in questions]

    def _best(self, states: list[Tensor], by: str, k: int) -> list[Ranked]:
        values = self._to_logits(torch.stack(states)).float()
        if by == "probabilities":
            values = torch.softmax(values, dim=1)
        elif by == "words":
            values = values[:, self._whole_ids]
        best = torch.topk(values, min(k, values.shape[1]), dim=1)
        return [Ranked(*pair) for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)]

    def _read(self, questions: list[Question]) -> dict[tuple[Row, int], Tensor]:
        """Return the state of each question, by row and place.

        Rows that are asked word by word (`logits`, BERT-Attack) keep their states in a cache.
        """
        rows = {q.row: self._states.get(q.row) for q in questions if q.place < len(q.row[0])}
        new = [row for row, states in rows.items() if states is None]
        rows |= dict(zip(new, self.network(new), strict=True))
        for question in questions:
            if question.by == "logits" and (states := rows.get(question.row)) is not None:
                self._states.put(question.row, states)
        found = {}
        for question in questions:
            states = rows[question.row] if question.place < len(question.row[0]) else self._padded(question)
            assert states is not None
            found[question.row, question.place] = states[question.place]
        return found

    def _padded(self, question: Question) -> Tensor:
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
