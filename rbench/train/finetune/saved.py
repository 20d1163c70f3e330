"""A victim as it was saved: its head lies beside the encoder's weights, and nothing is trained.

The encoder's folder is one in which rbench saved a victim, such as `rbench/packaged/NAME-victim`. Its fingerprint
covers the head, so another head makes another key.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.encoders.reading import Settings
from rbench.errors import JobError
from rbench.schema import Strict
from rbench.train.finetune import FinetuneContext, Finetuned
from rbench.train.finetune._data import gold

if TYPE_CHECKING:
    from rbench.encoders.sentence import SentenceEncoder

SHORT = "As saved"
VERSION = 1


class Options(Strict):
    """Nothing can be set."""


def run(options: Options, context: FinetuneContext) -> Finetuned:
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
    _check(folder, context.encoder, labels)
    victim = EncoderClassifier(context.encoder, num_labels=len(labels), max_length=context.training.max_length)
    try:
        victim.head.load_state_dict(load_file(folder / HEAD))
    except (OSError, ValueError, RuntimeError) as error:
        raise JobError(f"{folder / HEAD} is no head of {len(labels)} labels on this encoder: {error}") from error
    victim.to(context.device).eval()
    examples = context.sample("validation")
    context.progress(0, 1, f"validation: {len(examples)} texts")
    predicted = classify(victim, [example.texts for example in examples]).labels
    right = sum(int(label) == gold(example) for label, example in zip(predicted, examples, strict=True))
    context.progress(1, 1, f"validation accuracy {right / len(examples):.3f}")
    return Finetuned(victim, {"validation_accuracy": right / len(examples)})


def _check(folder: Path, encoder: SentenceEncoder, labels: tuple[str, ...]) -> None:
    """Raise JobError where the folder says that its head is for other labels, or for vectors made in another way."""
    from rbench.encoders.classifier import ABOUT

    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        saved, settings = tuple(about["meta"]["labels"]), Settings(**about.get("settings", {}))
        then = {"pooling": about["pooling"], "max_length": about["encoder_max_length"], **settings.model_dump()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise JobError(f"{folder / ABOUT} does not say for which labels and vectors the head is: {error}") from error
    if saved != labels:
        raise JobError(f"the head in {folder} is for the labels {', '.join(saved)}, and not for {', '.join(labels)}")
    now = {"pooling": encoder.pooling, "max_length": encoder.max_length, **encoder.settings.model_dump()}
    if differ := [f"{name} {then[name]!r}, not {now[name]!r}" for name in then if then[name] != now[name]]:
        raise JobError(
            f"the head in {folder} is for vectors with {'; '.join(differ)}. Name the folder itself as the encoder, or "
            "write what it was saved with into the encoder's file."
        )
