"""The resources of a profile, each loaded when it is first asked for and then kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from rbench.encoders.load import fetch
from rbench.errors import ResourceError
from rbench.inference.memo import Memo
from rbench.resources import lexical
from rbench.resources.locate import loader, locate
from rbench.resources.masked_lm import MaskedLM
from rbench.resources.sentences import Sentences, sentence_transformer, universal_sentence_encoder
from rbench.resources.thesaurus import Thesaurus, open_thesaurus
from rbench.spec import ResourceKind, ResourceProfile, Source
from rbench.vectors import WordVectors, read_counterfitted, read_vectors


class Resources:
    """What stands behind attacks, from one profile.

    Args:
        profile: which source stands behind what.
        models_path: where folders are looked for.
        device: where the models go.
        trained: folder by encoder name, for a masked LM that a pretrain job made.
        backend: what computes them, one of `rbench.inference.BACKENDS` or "auto".

    Every attribute raises ResourceError where its source is missing or damaged.
    """

    def __init__(
        self,
        profile: ResourceProfile,
        models_path: Sequence[Path] = (),
        *,
        device: str = "cpu",
        trained: Mapping[str, Path] | None = None,
        backend: str = "auto",
    ) -> None:
        self.profile, self.models_path = profile, tuple(models_path)
        self.device, self.backend = device, backend
        self.trained = dict(trained or {})

    def load(self, kinds: Iterable[ResourceKind]) -> None:
        """Load these now, so that what is damaged says so before the work starts."""
        for kind in kinds:
            getattr(self, {"synonyms": "_synonyms", "pos_tagger": "_tagger"}.get(kind, kind))

    def _source(self, kind: ResourceKind) -> tuple[Source, str]:
        where = locate(self.profile, {kind}, self.models_path)[kind].where
        source: Source | None = getattr(self.profile, kind)
        assert source is not None  # locate refuses that
        return source.model_copy(update={"kind": loader(kind, source)}), where

    @cached_property
    def word_vectors(self) -> WordVectors:
        """Words, their vectors (N, dim), cosines and nearest neighbours."""
        source, where = self._source("word_vectors")
        if source.kind == "mini":
            from rbench.mini.lexical import word_vectors

            return WordVectors(*word_vectors())
        return (read_vectors if source.kind == "folder" else read_counterfitted)(Path(where))

    @cached_property
    def _synonyms(self) -> Callable[[str], list[str]]:
        source, where = self._source("synonyms")
        if source.kind == "mini":
            from rbench.mini.lexical import synonyms

            return synonyms
        return lexical.wordnet_synonyms() if source.kind == "wordnet" else lexical.listed_synonyms(Path(where))

    def synonyms(self, word: str) -> list[str]:
        """One-word synonyms of `word` without itself, in a fixed order; empty where there are none."""
        return self._synonyms(word)

    @cached_property
    def thesaurus(self) -> Thesaurus:
        """What is known of a word under a part of speech, antonyms too: `rbench.resources.thesaurus`.

        It stands behind the resource `synonyms`; ResourceError where that is a list of synonyms alone.
        """
        return open_thesaurus(self._source("synonyms")[0].kind)

    @cached_property
    def masked_lm(self) -> MaskedLM:
        """The masked language model with its tokenizer."""
        source, where = self._source("masked_lm")
        if source.kind == "encoder":
            if source.name not in self.trained:
                raise ResourceError(f"masked_lm: no pretrain job of this run made the encoder {source.name}")
            return MaskedLM.open(self.trained[source.name], self.device, self.backend)
        return MaskedLM.open(fetch(where), self.device, self.backend)

    @cached_property
    def sentence_encoder(self) -> Sentences:
        """The sentence encoder: `encode` and `vectors` (remembered) give float32 tensors (n, dim)."""
        source, where = self._source("sentence_encoder")
        if source.kind == "mini":
            from rbench.mini.lexical import encode

            return Sentences(encode, "mini")
        if source.kind == "use":
            return universal_sentence_encoder(where)
        return sentence_transformer(fetch(where), self.device, self.backend)

    @cached_property
    def _tagger(self) -> Callable[[Sequence[str]], lexical.Tags]:
        return lexical.open_tagger(self._source("pos_tagger")[0].kind)

    def pos_tags(self, words: Sequence[str]) -> lexical.Tags:
        """(word, universal tag) for each word, in context; remembered."""
        key = tuple(words)
        tags = self._tags.get(key)
        if tags is None:
            tags = self._tagger(key)
            self._tags.put(key, tags)
        return tags

    def pos_tag(self, words: Sequence[str], place: int) -> str:
        """The universal tag of one word, in context; remembered."""
        tagger = self._tagger
        if not isinstance(tagger, lexical.NltkTagger):
            return self.pos_tags(words)[place][1]
        key: tuple[int | str, ...] = (place, *words[: place + 1 + tagger.REACH])
        tag = self._tag.get(key)
        if tag is None:
            tag = tagger.at(words, place)
            self._tag.put(key, tag)
        return tag

    @cached_property
    def _tag(self) -> Memo[tuple[int | str, ...], str]:
        return Memo(64 << 20, lambda words, tag: 300 + 60 * len(words))

    @cached_property
    def _tags(self) -> Memo[tuple[str, ...], lexical.Tags]:
        return Memo(64 << 20, lambda words, tags: 200 + 200 * len(words))

    @cached_property
    def stopwords(self) -> frozenset[str]:
        """Lower-case words that attacks leave alone."""
        source, _ = self._source("stopwords")
        if source.kind == "mini":
            from rbench.mini.lexical import stopwords

            return stopwords()
        return lexical.nltk_stopwords()
