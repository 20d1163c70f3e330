"""Extend transformers' Trainer: resumable order of texts, terms of the loss in logs, a stop where the loss diverges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers.trainer_pt_utils import get_length_grouped_indices

from rbench.errors import JobError
from rbench.system import checkpoints
from rbench.train.health import Observer
from rbench.train.selection import Selector


class Rows(Dataset[dict[str, Any]]):
    """Encode texts on demand; with `grouped`, encode all of them on first use and give their `lengths` in tokens.

    Nothing is encoded before first use, because an objective may have to prepare the texts first. Groups of
    `neighbours` rows, which divides their number, stay together in every order of texts that are not `grouped`.
    """

    def __init__(
        self, texts: list[str], features: Callable[[str], dict[str, Any]], grouped: bool, neighbours: int = 1
    ) -> None:
        self.neighbours = neighbours
        self._texts = texts
        self._features = features
        self._grouped = grouped

    @cached_property
    def _rows(self) -> list[dict[str, Any]] | None:
        return [self._features(text) for text in self._texts] if self._grouped else None

    @cached_property
    def lengths(self) -> list[int] | None:
        return [len(row["input_ids"]) for row in self._rows] if self._rows is not None else None

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._rows[index] if self._rows is not None else self._features(self._texts[index])


def shuffled(groups: int, size: int, generator: torch.Generator) -> list[int]:
    """Return the numbers 0 to groups * size - 1: groups of `size` numbers in a row, in a random order of groups."""
    starts = size * torch.randperm(groups, generator=generator)
    return (starts.unsqueeze(1) + torch.arange(size)).flatten().tolist()


class Order(Sampler[int]):
    """Order the texts by seed and epoch alone, so that a resumed run continues with the next text."""

    def __init__(self, rows: Rows, batch_size: int, seed: int, epoch: Callable[[], int]) -> None:
        self._rows, self._batch_size, self._seed, self._epoch = rows, batch_size, seed, epoch

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed)
        order: list[int] = []
        for _ in range(self._epoch() + 1):
            if self._rows.lengths is None:
                near = self._rows.neighbours
                order = shuffled(len(self._rows) // near, near, generator)
            else:
                order = get_length_grouped_indices(self._rows.lengths, self._batch_size, generator=generator)
        return iter(order)


class Trainer(transformers.Trainer):  # type: ignore[misc]
    """Train on `Rows` a model that returns a loss and its terms.

    Args:
        name: the encoder's name, for error messages.
        selector: chooses the step that is kept. None keeps the last step.
        observer: measures the health of the training. None measures nothing.
        rates: parts of the model with a learning rate of their own.
    """

    def __init__(
        self,
        *args: Any,
        name: str,
        selector: Selector | None = None,
        observer: Observer | None = None,
        rates: Sequence[tuple[nn.Module, float]] = (),
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self._name = name
        self._rates = {id(weight): rate for part, rate in rates for weight in part.parameters()}
        self._selector, self._observer = selector, observer
        self._in_checkpoints = [one for one in (selector, observer) if one is not None]
        for one in self._in_checkpoints:
            self.add_callback(one)
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def run(self, last: Path | None) -> None:
        """Train from the start, or from the checkpoint `last`. If that training was complete, only load its weights."""
        self.model.train()  # transformers 5 does so only after the first step has begun, where the observer probes
        if last is None:
            self.train()
            return
        reached = transformers.TrainerState.load_from_json(str(last / "trainer_state.json"))
        for one in self._in_checkpoints:
            one.read(last)
        over = self._selector is not None and self._selector.over
        if over or reached.global_step >= self.args.max_steps:
            self._load_from_checkpoint(str(last))
            self.state = reached
        else:
            self.train(resume_from_checkpoint=str(last))

    def get_train_dataloader(self) -> DataLoader[dict[str, Any]]:
        size = self.args.train_batch_size
        order = Order(self.train_dataset, size, self.args.seed, lambda: int(self.state.epoch or 0))
        loader: DataLoader[dict[str, Any]] = DataLoader(
            self.train_dataset,
            batch_size=size,
            sampler=order,
            collate_fn=self.data_collator,
            drop_last=self.args.dataloader_drop_last,
        )
        prepared: DataLoader[dict[str, Any]] = self.accelerator.prepare(loader)
        return prepared

    def create_optimizer(self, *args: Any, **more: Any) -> torch.optim.Optimizer:
        """Make the optimizer, and move weights with a learning rate of their own into groups of their own, at its end.

        Each keeps the weight decay that it has.
        """
        optimizer: torch.optim.Optimizer = super().create_optimizer(*args, **more)
        moved: list[dict[str, Any]] = []
        for group in optimizer.param_groups:
            for rate in sorted({self._rates[id(weight)] for weight in group["params"] if id(weight) in self._rates}):
                own = [weight for weight in group["params"] if self._rates.get(id(weight)) == rate]
                moved.append({**group, "params": own, "lr": rate})
            group["params"] = [weight for weight in group["params"] if id(weight) not in self._rates]
        optimizer.param_groups.extend(moved)
        return optimizer

    def compute_loss(self, model: Any, inputs: dict[str, Tensor], return_outputs: bool = False, **_: Any) -> Any:
        """Return the loss, and add its terms to the sums for the next log. JobError if it is infinite or NaN."""
        outputs: dict[str, Tensor] = model(**inputs)
        values = {name: value.detach().float().mean() for name, value in outputs.items()}
        if not torch.isfinite(values["loss"]):
            raise JobError(self._diverged({name: float(value) for name, value in values.items()}))
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, torch.zeros_like(value)) + value
        self._count += 1
        if self._observer is not None:
            self._observer.see(self.state.global_step, outputs)
        loss = outputs["loss"].mean()
        return (loss, outputs) if return_outputs else loss

    def _diverged(self, values: dict[str, float]) -> str:
        good = checkpoints.last_good(Path(self.args.output_dir))
        return (
            f"Encoder {self._name}: the loss is not finite at step {self.state.global_step + 1} of "
            f"{self.state.max_steps} ({', '.join(f'{name} {value:.4g}' for name, value in values.items())}). "
            f"Last good checkpoint: {good or 'none'}. A lower train.learning_rate usually helps."
        )

    def log(self, logs: dict[str, float], *args: Any, **more: Any) -> None:
        """Log also the means of the loss and its terms since the last log."""
        if "loss" in logs and self._count:
            logs.update({name: float(total) / self._count for name, total in self._sums.items()})
            self._sums, self._count = {}, 0
        super().log(logs, *args, **more)

    def mean_loss(self) -> float:
        """Return the mean loss over all steps, including those before an interruption."""
        total, before = 0.0, 0
        for entry in self.state.log_history:
            if "loss" in entry:
                total += entry["loss"] * (entry["step"] - before)
                before = entry["step"]
        return total / before if before else 0.0

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Write the weights of a checkpoint. `save_model` handles embeddings and masked-LM head that share a tensor."""
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_model(self.model, str(folder / checkpoints.WEIGHTS))
        for one in self._in_checkpoints:
            one.write(folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        safetensors.torch.load_model(model or self.model, str(Path(resume_from_checkpoint) / checkpoints.WEIGHTS))


class Report(transformers.TrainerCallback):  # type: ignore[misc]
    """Report the Trainer's progress, and make it log the last step too.

    Args:
        tell: is told of each step, before a checkpoint of the same step is written.
    """

    def __init__(
        self,
        progress: Callable[[int, int, str], None] | None,
        selector: Selector | None = None,
        tell: Callable[[int], None] | None = None,
    ) -> None:
        self._progress, self._selector, self._tell = progress, selector, tell
        self._text = ""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and "loss" in logs:
            parts = [f"{name} {value:.2g}" for name, value in logs.items() if name not in _NOT_PARTS]
            self._text = f"loss {logs['loss']:.2f}" + (f" ({', '.join(parts)})" if parts else "")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        if self._tell is not None:
            self._tell(state.global_step)
        if state.global_step >= state.max_steps:
            control.should_log = True
        if self._progress is not None:
            selected = self._selector.text if self._selector is not None else ""
            text = ", ".join(part for part in (self._text, selected) if part)
            self._progress(state.global_step, state.max_steps, text)
        return control


_NOT_PARTS = {"loss", "grad_norm", "learning_rate", "epoch", "step"}
