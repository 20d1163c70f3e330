"""Opens any transformers model for sequence classification as a victim, as it is."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from rbench.encoders.foreign import check_finite, check_model, reading
from rbench.encoders.load import fetch
from rbench.encoders.sentence import longest_input
from rbench.errors import ResourceError
from rbench.spec import TaskSpec, VictimSpec
from rbench.victims.config import check_config, read_config

VERSION = 1


class ExistingClassifier(nn.Module):
    """A model for sequence classification with the logits in the order of a task's labels.

    Args:
        model: a transformers model whose output has `.logits` (batch, labels).
        tokenizer: reads one text, or two.
        order: for each label of the task the index of its logit.
        max_length: longest input in tokens; None, or more than the model reads: what the model reads.
    """

    def __init__(self, model: Any, tokenizer: Any, order: tuple[int, ...], max_length: int | None = None) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.order, self.num_labels = order, len(order)
        self._ordered = order == tuple(range(len(order)))
        longest = longest_input(model, tokenizer)
        self.max_length = min(max_length or longest, longest)

    def forward(self, **inputs: Tensor) -> SequenceClassifierOutput:
        """Return logits (batch, labels) in float32, in the order of the task's labels.

        Inputs are those of the tokenizer, each (batch, length), or `inputs_embeds` in place of `input_ids`.
        """
        logits = self.model(**inputs).logits.float()
        return SequenceClassifierOutput(logits=logits if self._ordered else logits[:, list(self.order)])

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        found: torch.device = next(self.model.parameters()).device
        return found

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
    model, tokenizer = _read(spec, folder)
    if tokenizer.pad_token is None:  # inference pads nothing; evaluations do, and mask what they pad
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    # A decoder reads the last token that is not the config's padding, so that must be the token that pads.
    model.config.pad_token_id = tokenizer.pad_token_id
    return ExistingClassifier(model.float(), tokenizer, order, spec.max_length).to(device).eval()


def _read(spec: VictimSpec, folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

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
    return model, tokenizer
