"""Opens any transformers model for sequence classification as a victim, as it is."""

from __future__ import annotations

import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.modeling_outputs import SequenceClassifierOutput

from rbench.encoders import fetch
from rbench.encoders.classify import Batching, batching
from rbench.encoders.foreign import check_finite, check_model, check_size, reading
from rbench.encoders.locate import check_tokenizer
from rbench.encoders.reading import fitted, longest_input, padding
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, VictimSpec
from rbench.victims.config import check_config, read_config

VERSION = 1


class ExistingClassifier(nn.Module):
    """A model for sequence classification with the logits in the order of a task's labels.

    Its answers are those of `model(**tokenizer(text, return_tensors="pt"))`, one text at a time. The model and the
    tokenizer that are given stay as they are, except that the model's mode may change.

    Args:
        model: a transformers model whose output has `.logits` (batch, labels).
        tokenizer: reads one text, or two.
        order: for each label of the task the index of its logit.
        max_length: longest input in tokens; None, or more than the model reads: what the model reads.
    """

    def __init__(self, model: Any, tokenizer: Any, order: tuple[int, ...], max_length: int | None = None) -> None:
        super().__init__()
        self.model, self.tokenizer = _own(model), fitted(tokenizer, model)
        self.order, self.num_labels = order, len(order)
        self._ordered = order == tuple(range(len(order)))
        longest = longest_input(model, self.tokenizer)
        self.max_length = min(max_length or longest, longest)
        self.pad = padding(self.tokenizer, model)
        """Token id and token type id of padding."""
        self.batching = Batching()
        """In which batches a text has the answer that it has alone. `checked` finds out."""

    def checked(self, columns: int) -> Self:
        """Return this classifier, which from now on is asked in batches that change no answer.

        Raises ResourceError where it cannot compute a row of so many texts.
        """
        self.batching = batching(self, columns)
        return self

    def forward(self, **inputs: Tensor) -> SequenceClassifierOutput:
        """Return logits (batch, labels) in float32, in the order of the task's labels.

        Inputs are those of the tokenizer, each (batch, length), or `inputs_embeds` in place of `input_ids`.
        """
        try:
            logits = self.model(**inputs).logits.float()
        except ValueError:  # T5 and BART refuse a batch in which a text has their last token in it, another has not
            rows = len(next(iter(inputs.values())))
            if rows == 1:
                raise
            each = ({name: values[i : i + 1] for name, values in inputs.items()} for i in range(rows))
            logits = torch.cat([self.model(**row).logits.float() for row in each])
        return SequenceClassifierOutput(logits=logits if self._ordered else logits[:, list(self.order)])

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device  # type: ignore[no-any-return]

    def get_input_embeddings(self) -> nn.Module:
        """Return the token embedding layer. Attacks that use gradients put a hook on it."""
        return self.model.get_input_embeddings()  # type: ignore[no-any-return]

    @cached_property
    def head(self) -> nn.Linear | None:
        """The last linear layer, whose answers are the logits, with its rows in the task's order; None without one."""
        rows = self.model.config.num_labels
        linear = [part for part in self.model.modules() if isinstance(part, nn.Linear) and part.out_features == rows]
        for layer in reversed(linear):
            if self._answers(layer):
                head = nn.Linear(layer.in_features, rows, device=layer.weight.device)
                head.weight = nn.Parameter(layer.weight.detach()[list(self.order)])
                if layer.bias is not None:
                    head.bias = nn.Parameter(layer.bias.detach()[list(self.order)])
                return head
        return None

    def _answers(self, layer: nn.Linear) -> bool:
        """Return whether the logits of a short text are rows of what this layer answers."""
        kept: list[Tensor] = []
        handle = layer.register_forward_hook(lambda module, args, output: kept.append(output))
        inputs = self.tokenizer(["a"], return_tensors="pt").to(self.device)
        try:
            with torch.inference_mode():
                logits = self.model(**inputs).logits
        finally:
            handle.remove()
        return bool(kept) and any(torch.equal(row, logits[0]) for row in kept[-1].reshape(-1, logits.shape[1]))


def open_model(spec: VictimSpec, where: str | Path, task: TaskSpec, device: str = "cpu") -> ExistingClassifier:
    """Open the model at `where` (a folder, or `id@commit` on the hub) for a task, in eval mode and in float32.

    Python code of a model is not run.

    Raises:
        ResourceError: the model or its tokenizer cannot be read, weights are missing, or it does not fit the task.
    """
    folder = fetch(str(where), revision=spec.revision)
    check_model(folder)
    order = check_config(spec, read_config(str(folder)), task)
    with reading(f"victim `{spec.name}`: {folder} cannot be read"):
        check_size(folder, AutoModelForSequenceClassification)
    check_tokenizer(folder, f"victim `{spec.name}`")
    with reading(
        f"victim `{spec.name}`: {folder} has no tokenizer that can be read; save it beside the model "
        "(`tokenizer.save_pretrained(...)`)"
    ):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    with reading(f"victim `{spec.name}`: {folder} cannot be read"):
        model, loading = AutoModelForSequenceClassification.from_pretrained(
            folder, trust_remote_code=False, output_loading_info=True, torch_dtype=torch.float32
        )
    if missing := sorted(loading["missing_keys"]):
        raise ResourceError(
            f"victim `{spec.name}`: {folder} lacks weights of a classifier: {', '.join(missing[:3])}"
            f"{' ...' if len(missing) > 3 else ''}. Save the fine-tuned model with model.save_pretrained(...)"
        )
    check_finite(model, folder)
    classifier = ExistingClassifier(model.float(), tokenizer, order, spec.max_length).to(device).eval()
    try:
        return classifier.checked(len(task.columns))
    except ResourceError as error:
        raise ResourceError(f"victim `{spec.name}`: {folder}: {error}") from error


def _own(model: Any) -> Any:
    """Return the same model with a configuration of its own, which says of a decoder without padding that it has none.

    The head of such a decoder reads the last token of a text, and refuses several texts, because it cannot tell theirs
    from padding. Token -1 is none, so it reads the last token of each row. Rows of one length need no padding.
    """
    own = copy.copy(model)
    own.config = copy.deepcopy(model.config)
    for config in (own.config, own.config.get_text_config()):
        if getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = -1
    return own
