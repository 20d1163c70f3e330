"""A victim as it was saved: its head lies beside the encoder's weights, and nothing is trained.

The encoder's folder is one in which rbench saved a victim, such as `rbench/packaged/NAME-victim`. Its fingerprint
covers the head, so another head makes another key.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.encoders.reading import ReadingSettings
from rbench.errors import JobError
from rbench.schema import Strict
from rbench.system.own_code import failing_in
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._data import label_id

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

VERSION = 1


class Options(Strict):
    """Nothing can be set."""


class SavedStrategy(FinetuneStrategy[Options]):
    short = "As saved"

    def run(self, options: Options, context: FinetuneContext) -> Finetuned:
        """Put the saved head on the encoder. The score is `validation_accuracy` (0..1).

        Raises JobError where no head lies beside the encoder's weights, or the head was saved for other labels or for
        vectors made in another way.
        """
        from safetensors.torch import load_file

        from rbench.encoders.classifier import HEAD, EncoderClassifier
        from rbench.encoders.classify import classify

        folder, labels = context.weights, context.data.spec.labels
        if folder is None or not (folder / HEAD).is_file():
            raise JobError(
                f"{folder or 'the encoder'} has no {HEAD}: `finetune: [saved]` takes a folder in which rbench saved a "
                "victim. Name another strategy to fine-tune this encoder."
            )
        _check_saved(folder, context.encoder, labels)
        victim = EncoderClassifier(context.encoder, num_labels=len(labels), max_length=context.training.max_length)
        with failing_in(f"{folder / HEAD} is no head of {len(labels)} labels on this encoder", JobError):
            victim.head.load_state_dict(load_file(folder / HEAD))
        victim.to(context.device).eval()
        examples = context.sample("validation")
        context.progress(0, 1, f"validation: {len(examples)} texts")
        predicted = classify(victim, [example.texts for example in examples]).labels
        right = sum(int(label) == label_id(example) for label, example in zip(predicted, examples, strict=True))
        context.progress(1, 1, f"validation accuracy {right / len(examples):.3f}")
        return Finetuned(victim, {"validation_accuracy": right / len(examples)})


def _check_saved(folder: Path, encoder: SentenceEncoder, labels: tuple[str, ...]) -> None:
    """Raise JobError where the folder says that its head is for other labels, or for vectors made in another way."""
    from rbench.encoders.classifier import ABOUT

    with failing_in(f"{folder / ABOUT} does not say for which labels and vectors the head is", JobError):
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        saved, settings = tuple(about["meta"]["labels"]), ReadingSettings(**about.get("settings", {}))
        saved_settings = {
            "pooling": about["pooling"],
            "max_length": about["encoder_max_length"],
            **settings.model_dump(),
        }
    if saved != labels:
        raise JobError(f"the head in {folder} is for the labels {', '.join(saved)}, and not for {', '.join(labels)}")
    settings_now = {"pooling": encoder.pooling, "max_length": encoder.max_length, **encoder.settings.model_dump()}
    if differences := [
        f"{name} {saved_settings[name]!r}, not {settings_now[name]!r}"
        for name in saved_settings
        if saved_settings[name] != settings_now[name]
    ]:
        raise JobError(
            f"the head in {folder} is for vectors with {'; '.join(differences)}. Name the folder itself as the "
            "encoder, or write what it was saved with into the encoder's file."
        )
