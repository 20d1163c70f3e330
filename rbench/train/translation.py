"""Make positives from the texts alone, before the first step: back-translations and paraphrases (BTCL).

Back-translations are made with a pair of MarianMT models and kept on disk. Marian translates sentences, so a text is
split at sentence ends and joined again. Each sentence is one line in a file. Files appear complete and never change
(`TranslationMemory`), so that any number of processes may share the folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from rbench.encoders import fetch_folder
from rbench.encoders.foreign import as_resource_error
from rbench.encoders.locate import hash_model
from rbench.errors import JobError
from rbench.mini.writing import paraphrase
from rbench.schema import EncoderSpec
from rbench.system.below import SafeFolder
from rbench.train.moco import MoCo, MoCoObjective
from rbench.train.options import MomentumOptions, Progress

VERSION = 1

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
TOKENS = 4096
"""Largest number of tokens in a batch, padding included."""
AT_ONCE = 512
"""Number of sentences translated for each file."""


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences after `.`, `!` and `?` followed by white space; leave empty ones out."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part]


class TranslationMemory:
    """Keep a translation for each sentence, in a folder of files. `key` identifies the models and the decoding."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder / hashlib.sha256(key.encode()).hexdigest()

    def read(self) -> dict[str, str]:
        """Return all translations kept."""
        translations: dict[str, str] = {}
        for file in sorted(self.folder.glob("*.jsonl")):
            translations.update(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
        return translations

    def write(self, pairs: dict[str, str]) -> None:
        """Add these translations. Their file appears complete or not at all."""
        # Sorted, so that the same translations get the same name, whichever process writes them.
        content = "".join(json.dumps(pair) + "\n" for pair in sorted(pairs.items())).encode()
        SafeFolder(self.folder).replace(self.folder / f"{hashlib.sha256(content).hexdigest()}.jsonl", content)


class Translator:
    """Translate from one language to another with a MarianMT model.

    Args:
        where: the model's folder, or `id@commit` on the hub.
        beams: number of beams; 1 decodes greedily.

    Raises:
        JobError: there is no readable MarianMT model.
    """

    def __init__(self, where: str, *, beams: int, device: torch.device) -> None:
        from transformers import AutoConfig, MarianMTModel, MarianTokenizer

        folder = fetch_folder(where)
        with as_resource_error(f"{where} cannot be read as a MarianMT model with its tokenizer"):
            kind = AutoConfig.from_pretrained(folder, trust_remote_code=False).model_type
            if kind != "marian":
                raise JobError(f"{where} is a model of type {kind}; back-translation needs a MarianMT model.")
            self.model: Any = MarianMTModel.from_pretrained(folder).float().eval().to(device)
            with warnings.catch_warnings():
                # The tokenizer recommends a package for a normalisation that it does not perform.
                warnings.filterwarnings("ignore", message="Recommended: pip install sacremoses")
                self.tokenizer: Any = MarianTokenizer.from_pretrained(folder)
        self._beams = beams
        self._limit = min(self.tokenizer.model_max_length, self.model.config.max_position_embeddings)

    @torch.no_grad()
    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Translate each text. Inputs and outputs are cut at the longest length that the model supports."""
        encoded = self.tokenizer(list(texts), truncation=True, max_length=self._limit)["input_ids"]
        translations = [""] * len(texts)
        for rows in _batches([len(ids) for ids in encoded]):
            batch = self.tokenizer.pad({"input_ids": [encoded[row] for row in rows]}, return_tensors="pt")
            generated = self.model.generate(
                **batch.to(self.model.device), num_beams=self._beams, do_sample=False, max_length=self._limit
            )
            for row, text in zip(rows, self.tokenizer.batch_decode(generated, skip_special_tokens=True), strict=True):
                translations[row] = text.strip()
        return translations


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of row numbers, longest rows first, each with at most `TOKENS` tokens and at least one row."""
    # Texts of similar length share a batch; the longest first, so that a lack of memory shows at once.
    order = iter(sorted(range(len(lengths)), key=lambda row: -lengths[row]))
    while (first := next(order, None)) is not None:
        yield [first, *islice(order, max(0, TOKENS // max(1, lengths[first]) - 1))]


class BackTranslation:
    """Rewrite texts by translation into another language and back.

    Args:
        forward, backward: folders or hub ids of the two models. They are loaded only if a translation is missing.
        beams: number of beams; 1 decodes greedily.
    """

    def __init__(self, forward: str, backward: str, *, beams: int = 1) -> None:
        self._models, self._beams = (forward, backward), beams
        self._known: dict[str, str] = {}

    def prepare(self, texts: Sequence[str], folder: Path, device: torch.device, progress: Progress | None) -> None:
        """Translate the sentences that neither this object nor `folder` has. An interrupted call can be continued.

        Raises:
            JobError: a model cannot be read, or changed while it was in use.
        """
        fingerprints = self._content()
        memory = TranslationMemory(folder / "translations", json.dumps([fingerprints, self._beams]))
        self._known |= memory.read()
        needed = dict.fromkeys(sentence for text in texts for sentence in split_sentences(text))
        missing = [sentence for sentence in needed if sentence not in self._known]
        if not missing:
            return
        forward, backward = (Translator(where, beams=self._beams, device=device) for where in self._models)
        for start in range(0, len(missing), AT_ONCE):
            chunk = missing[start : start + AT_ONCE]
            back_translated = backward(forward(chunk))
            # A sentence whose translation is empty stays as it is, because a positive must not be empty.
            pairs = {
                sentence_before: translated or sentence_before
                for sentence_before, translated in zip(chunk, back_translated, strict=True)
            }
            if self._content() != fingerprints:  # translations by changed models must not be kept under the old key
                raise JobError(f"{' or '.join(self._models)} changed while it was in use; run the command again")
            memory.write(pairs)
            self._known |= pairs
            if progress is not None:
                progress(start + len(chunk), len(missing), "back-translation")

    def __call__(self, text: str) -> str:
        """Return the back-translation of a prepared text. KeyError for any other text."""
        return " ".join(self._known[sentence] for sentence in split_sentences(text)) or text

    def _content(self) -> list[str]:
        return [hash_model(fetch_folder(where)) for where in self._models]


class MiniParaphraser:
    """Rewrite texts of the embedded world. The paraphrase depends on the text and the seed only.

    Args:
        name: the encoder's name, for error messages.
        seed: seed of the paraphrases.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._name, self._seed = name, seed

    def prepare(self, texts: Sequence[str], folder: Path, device: torch.device, progress: Progress | None) -> None:
        """Check the texts. Nothing is kept: paraphrasing is fast. JobError for a text not of the embedded world."""
        for text in texts:
            self(text)

    def __call__(self, text: str) -> str:
        """Return the paraphrase. JobError for a text that is not of the embedded world."""
        paraphrased = paraphrase(text, self._seed)
        if paraphrased is None:
            raise JobError(
                f"Encoder {self._name}: `paraphraser: mini` writes the language of the embedded world, and this text "
                f"is not of it: {text[:80]!r}. Other texts need a translation model: `paraphraser: marian`."
            )
        return paraphrased


class RewrittenPositives:
    """`PositiveSource` by a function of the text. A text always has the same positive."""

    counts: tuple[str, ...] = ()

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite

    def __call__(self, model: MoCo, texts: Sequence[str]) -> tuple[list[str], dict[str, float]]:
        return [self._rewrite(text) for text in texts], {}

    def scores(self, sums: Mapping[str, float]) -> dict[str, float]:
        return {}


class RewritingObjective(MoCoObjective):
    """Implement `Objective` and `PreparedObjective`: momentum contrast with rewritten texts as positives."""

    def __init__(
        self,
        spec: EncoderSpec,
        base: str | Path | None,
        options: MomentumOptions,
        rewrite: BackTranslation | MiniParaphraser,
    ) -> None:
        super().__init__(spec, base, options, RewrittenPositives(rewrite))
        self._rewrite = rewrite

    def prepare(self, texts: Sequence[str], folder: Path, progress: Progress | None) -> None:
        """Rewrite all texts. Translations are kept in `folder`."""
        self._rewrite.prepare(texts, folder, self.encoder.device, progress)
