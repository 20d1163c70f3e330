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

from rbench.encoders import fetch_folder
from rbench.encoders.classify import BatchLimits, find_batch_limits
from rbench.encoders.foreign import as_resource_error, check_finite, check_model, check_size
from rbench.encoders.locate import check_tokenizer
from rbench.encoders.reading import find_longest_input, find_padding, fit_tokenizer
from rbench.errors import ResourceError
from rbench.schema import TaskSpec, VictimSpec
from rbench.victims.config import check_config, read_config

# Part of the key of every job on such a model (config/versions.py): raise it if its logits change, and all attacks on
# these models are run anew.
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
        self.model, self.tokenizer = _copy_with_padding(model), fit_tokenizer(tokenizer, model)
        self.order, self.num_labels = order, len(order)
        self._ordered = order == tuple(range(len(order)))
        longest = find_longest_input(model, self.tokenizer)
        self.max_length = min(max_length or longest, longest)
        self.pad = find_padding(self.tokenizer, model)
        """Token id and token type id of padding."""
        self.batching = BatchLimits()
        """In which batches a text has the answer that it has alone. `with_safe_batches` finds out."""

    def with_safe_batches(self, columns: int) -> Self:
        """Return this classifier, which from now on is asked in batches that change no answer.

        Raises ResourceError where it cannot compute a row of so many texts.
        """
        self.batching = find_batch_limits(self, columns)
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
            row_inputs = ({name: values[i : i + 1] for name, values in inputs.items()} for i in range(rows))
            logits = torch.cat([self.model(**row).logits.float() for row in row_inputs])
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
        num_labels = self.model.config.num_labels
        linear = [
            part for part in self.model.modules() if isinstance(part, nn.Linear) and part.out_features == num_labels
        ]
        # From the last layer backwards: earlier ones may have as many outputs by chance, and are tried only then.
        for layer in reversed(linear):
            if self._gives_logits(layer):
                head = nn.Linear(layer.in_features, num_labels, device=layer.weight.device)
                head.weight = nn.Parameter(layer.weight.detach()[list(self.order)])
                if layer.bias is not None:
                    head.bias = nn.Parameter(layer.bias.detach()[list(self.order)])
                return head
        return None

    def _gives_logits(self, layer: nn.Linear) -> bool:
        """Return whether the logits of a short text are rows of what this layer answers."""
        layer_outputs: list[Tensor] = []
        handle = layer.register_forward_hook(lambda module, args, output: layer_outputs.append(output))
        inputs = self.tokenizer(["a"], return_tensors="pt").to(self.device)
        try:
            with torch.inference_mode():
                logits = self.model(**inputs).logits
        finally:
            handle.remove()
        return bool(layer_outputs) and any(
            torch.equal(row, logits[0]) for row in layer_outputs[-1].reshape(-1, logits.shape[1])
        )


def open_model(spec: VictimSpec, where: str | Path, task: TaskSpec, device: str = "cpu") -> ExistingClassifier:
    """Open the model at `where` (a folder, or `id@commit` on the hub) for a task, in eval mode and in float32.

    Python code of a model is not run.

    Raises:
        ResourceError: the model or its tokenizer cannot be read, weights are missing, or it does not fit the task.
    """
    folder = fetch_folder(str(where), revision=spec.revision)
    check_model(folder)
    order = check_config(spec, read_config(str(folder)), task)
    with as_resource_error(f"victim `{spec.name}`: {folder} cannot be read"):
        check_size(folder, AutoModelForSequenceClassification)
    check_tokenizer(folder, f"victim `{spec.name}`")
    with as_resource_error(
        f"victim `{spec.name}`: {folder} has no tokenizer that can be read; save it beside the model "
        "(`tokenizer.save_pretrained(...)`)"
    ):
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    with as_resource_error(f"victim `{spec.name}`: {folder} cannot be read"):
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
        return classifier.with_safe_batches(len(task.columns))
    except ResourceError as error:
        raise ResourceError(f"victim `{spec.name}`: {folder}: {error}") from error


def _copy_with_padding(model: Any) -> Any:
    """Return the same model with a configuration of its own, which says of a decoder without padding that it has none.

    The head of such a decoder reads the last token of a text, and refuses several texts, because it cannot tell theirs
    from padding. Token -1 is none, so it reads the last token of each row. Rows of one length need no padding.
    """
    model_copy = copy.copy(model)
    model_copy.config = copy.deepcopy(model.config)
    for config in (model_copy.config, model_copy.config.get_text_config()):
        if getattr(config, "pad_token_id", None) is None:
            config.pad_token_id = -1
    return model_copy
