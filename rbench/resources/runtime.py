"""The resources of a profile, each loaded when it is first asked for and then kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from rbench.encoders.load import fetch
from rbench.encoders.vectors import WordVectors, read_counterfitted, read_vectors
from rbench.errors import ResourceError
from rbench.inference.memo import Memo
from rbench.resources import lexical
from rbench.resources.locate import loader, locate
from rbench.resources.masked_lm import MaskedLM
from rbench.resources.sentences import Sentences, sentence_transformer, universal_sentence_encoder
from rbench.resources.thesaurus import Thesaurus, open_thesaurus
from rbench.spec import ResourceKind, ResourceProfile, Source
from rbench.system.located import Located, Watch, folder


class Resources:
    """What stands behind attacks, from one profile.

    Args:
        profile: which source stands behind what.
        models_path: where folders are looked for, where no `places` are given.
        places: where planning found them; others are refused. None: each is looked for when it is first asked for.
        device: where the models go.
        trained: folder by encoder name, for a masked LM that a pretrain job made.
        backend: what computes them, one of `rbench.inference.BACKENDS` or "auto".

    Every attribute raises ResourceError where its source is missing or damaged, and JobError where it is no longer what
    it was when it was found.
    """

    def __init__(
        self,
        profile: ResourceProfile,
        models_path: Sequence[Path] = (),
        *,
        places: Mapping[ResourceKind, Located] | None = None,
        device: str = "cpu",
        trained: Mapping[str, Path] | None = None,
        backend: str = "auto",
    ) -> None:
        self.profile, self.models_path = profile, tuple(models_path)
        self.device, self.backend = device, backend
        self._planned, self._places = places is not None, dict(places or {})
        lm = profile.masked_lm
        if lm is not None and lm.kind == "encoder" and lm.name is not None and lm.name in (trained := trained or {}):
            self._places["masked_lm"] = folder(trained[lm.name])
        self._watch = Watch()

    def load(self, kinds: Iterable[ResourceKind]) -> None:
        """Load these now, so that what is damaged says so before the work starts."""
        for kind in kinds:
            getattr(self, {"synonyms": "_synonyms", "pos_tagger": "_tagger"}.get(kind, kind))

    def check(self) -> None:
        """JobError where something that was opened is no longer what it was."""
        self._watch.check()

    def located(self, kind: ResourceKind) -> Located:
        """Where a resource lies. ResourceError where it is missing, or was not planned for."""
        source: Source | None = getattr(self.profile, kind)
        if kind not in self._places:
            if source is not None and source.kind == "encoder":
                raise ResourceError(f"{kind}: no pretrain job of this run made the encoder {source.name}")
            if self._planned:
                raise ResourceError(
                    f"{kind} of resource profile {self.profile.name} was not looked for, because nothing said that it "
                    "is needed; the attack, strategy or objective that asks for it must name it among its NEEDS"
                )
            self._places[kind] = locate(self.profile, {kind}, self.models_path)[kind]
        return self._places[kind]

    @contextmanager
    def _open(self, kind: ResourceKind) -> Iterator[tuple[Source, str]]:
        """The source of a resource, its kind that of its loader, and where it lies: to be read inside."""
        found = self.located(kind)
        source: Source | None = getattr(self.profile, kind)
        assert source is not None  # `located` refuses that
        with self._watch.reading(found) as where:
            yield source.model_copy(update={"kind": loader(kind, source)}), where

    @cached_property
    def word_vectors(self) -> WordVectors:
        """Words, their vectors (N, dim), cosines and nearest neighbours."""
        with self._open("word_vectors") as (source, where):
            if source.kind == "mini":
                from rbench.mini.lexical import word_vectors

                return WordVectors(*word_vectors())
            return (read_vectors if source.kind == "folder" else read_counterfitted)(Path(where))

    @cached_property
    def _synonyms(self) -> Callable[[str], list[str]]:
        with self._open("synonyms") as (source, where):
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
        with self._open("synonyms") as (source, _):
            return open_thesaurus(source.kind)

    @cached_property
    def masked_lm(self) -> MaskedLM:
        """The masked language model with its tokenizer."""
        with self._open("masked_lm") as (_, where):
            return MaskedLM.open(fetch(where), self.device, self.backend)

    @cached_property
    def sentence_encoder(self) -> Sentences:
        """The sentence encoder: `encode` and `vectors` (remembered) give float32 tensors (n, dim)."""
        with self._open("sentence_encoder") as (source, where):
            if source.kind == "mini":
                from rbench.mini.lexical import encode

                return Sentences(encode, "mini")
            if source.kind == "use":
                return universal_sentence_encoder(where)
            return sentence_transformer(fetch(where), self.device, self.backend)

    @cached_property
    def _tagger(self) -> Callable[[Sequence[str]], lexical.Tags]:
        with self._open("pos_tagger") as (source, _):
            return lexical.open_tagger(source.kind)

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
        with self._open("stopwords") as (source, _):
            if source.kind == "mini":
                from rbench.mini.lexical import stopwords

                return stopwords()
            return lexical.nltk_stopwords()
