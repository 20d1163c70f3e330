"""Load the sources of a resource set, each on first use, and keep them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rbench.encoders import fetch_folder
from rbench.encoders.inference import BoundedMemo
from rbench.encoders.vectors import WordVectors, read_counterfitted, read_vectors
from rbench.errors import ResourceError
from rbench.mini import lexical as mini
from rbench.schema import ResourceKind, ResourceSet, ResourceSource
from rbench.system.digests import FingerprintedPlace, PlaceWatch, locate_folder
from rbench.words.resources import lexical
from rbench.words.resources.locate import choose_loader, locate

if TYPE_CHECKING:
    from rbench.words.resources.masked_lm import MaskedLM
    from rbench.words.resources.sentences import CachedSentenceEncoder
    from rbench.words.resources.thesaurus import Thesaurus


class Resources:
    """The resources of one set.

    Args:
        resource_set: the source of each resource.
        models_path: folders that are searched if `places` is None.
        places: where planning found the resources; others are refused. None: each is looked for on first use.
        device: where the models run.
        trained: folders by encoder name, for a masked LM that a pretrain job made.
        backend: what computes the models, one of `rbench.encoders.inference.BACKENDS` or "auto".

    Every attribute raises ResourceError if its source is missing or damaged, and JobError if its content changed since
    it was found.
    """

    def __init__(
        self,
        resource_set: ResourceSet,
        models_path: Sequence[Path] = (),
        *,
        places: Mapping[ResourceKind, FingerprintedPlace] | None = None,
        device: str = "cpu",
        trained: Mapping[str, Path] | None = None,
        backend: str = "auto",
    ) -> None:
        self.resource_set, self.models_path = resource_set, tuple(models_path)
        self.device, self.backend = device, backend
        self._planned, self._places = places is not None, dict(places or {})
        lm = resource_set.masked_lm
        if lm is not None and lm.kind == "encoder" and lm.name is not None and lm.name in (trained := trained or {}):
            self._places["masked_lm"] = locate_folder(trained[lm.name])
        self._watch = PlaceWatch()
        self._tag: BoundedMemo[tuple[int | str, ...], str] = BoundedMemo(
            64 << 20, lambda words, tag: 300 + 60 * len(words)
        )
        self._tags: BoundedMemo[tuple[str, ...], lexical.TaggedWords] = BoundedMemo(
            64 << 20, lambda words, tags: 200 + 200 * len(words)
        )

    def load(self, kinds: Iterable[ResourceKind]) -> None:
        """Load these resources now, so that a damaged one raises its error before the work starts."""
        for kind in kinds:
            getattr(self, {"synonyms": "_synonyms", "pos_tagger": "_tagger"}.get(kind, kind))

    def check(self) -> None:
        """Raise JobError if a resource that was loaded has changed since."""
        self._watch.check()

    def forget(self) -> None:
        """Forget the tags, vectors and answers that were computed, so that they cost the next attack what they cost."""
        self._tag.clear()
        self._tags.clear()
        for kind in ("sentence_encoder", "masked_lm"):
            if kind in self.__dict__:
                self.__dict__[kind].forget()

    def located(self, kind: ResourceKind) -> FingerprintedPlace:
        """Return the place of a resource. Raises ResourceError if it is missing, or was not part of the plan."""
        source: ResourceSource | None = getattr(self.resource_set, kind)
        if kind not in self._places:
            if self._planned or (source is not None and source.kind == "encoder"):
                raise ResourceError(
                    f"{kind} of resource set {self.resource_set.name} was neither looked for nor trained, because "
                    "nothing declared that it is needed; the attack, strategy or objective that uses it must list it "
                    "in its `resources`"
                )
            self._places[kind] = locate(self.resource_set, {kind}, self.models_path)[kind]
        return self._places[kind]

    @contextmanager
    def _open(self, kind: ResourceKind) -> Iterator[tuple[ResourceSource, str]]:
        """Yield the source of a resource, with its loader as kind, and its place, to be read inside the block."""
        place = self.located(kind)
        source: ResourceSource | None = getattr(self.resource_set, kind)
        assert source is not None  # `located` refuses that
        # Inside the block of `reading`: content that changes while it is read is noticed when the block ends.
        with self._watch.reading(place) as where:
            yield source.model_copy(update={"kind": choose_loader(kind, source)}), where

    @cached_property
    def word_vectors(self) -> WordVectors:
        """The word vectors (N, dim), with cosines and nearest neighbours."""
        with self._open("word_vectors") as (source, where):
            if source.kind == "mini":
                return WordVectors(*mini.word_vectors())
            return (read_vectors if source.kind == "folder" else read_counterfitted)(Path(where))

    @cached_property
    def _synonyms(self) -> Callable[[str], list[str]]:
        with self._open("synonyms") as (source, where):
            if source.kind == "mini":
                return mini.synonyms
            if source.kind == "wordnet":
                return lexical.wordnet_synonyms()
            listed = lexical.listed_synonyms(Path(where))
            return listed if source.kind == "folder" else lexical.combined_synonyms(lexical.wordnet_synonyms(), listed)

    def synonyms(self, word: str) -> list[str]:
        """Return the one-word synonyms of `word`, without the word itself, in a fixed order."""
        return self._synonyms(word)

    @cached_property
    def thesaurus(self) -> Thesaurus:
        """The thesaurus of the resource `synonyms`, see `rbench.words.resources.thesaurus`.

        Raises ResourceError if the resource is a mere list of synonyms.
        """
        with self._open("synonyms") as (source, _):
            from rbench.words.resources.thesaurus import open_thesaurus

            return open_thesaurus(source.kind)

    @cached_property
    def masked_lm(self) -> MaskedLM:
        """The masked language model with its tokenizer."""
        with self._open("masked_lm") as (_, where):
            from rbench.words.resources.masked_lm import MaskedLM

            return MaskedLM.open(fetch_folder(where), self.device, self.backend)

    @cached_property
    def sentence_encoder(self) -> CachedSentenceEncoder:
        """The sentence encoder. Its `encode`, and `vectors` (which caches), return float32 tensors (n, dim)."""
        from rbench.words.resources.sentences import (
            CachedSentenceEncoder,
            sentence_transformer,
            universal_sentence_encoder,
        )

        with self._open("sentence_encoder") as (source, where):
            if source.kind == "mini":
                return CachedSentenceEncoder(mini.encode, "mini")
            if source.kind == "use":
                return universal_sentence_encoder(where)
            return sentence_transformer(fetch_folder(where), self.device, self.backend)

    @cached_property
    def _tagger(self) -> Callable[[Sequence[str]], lexical.TaggedWords]:
        with self._open("pos_tagger") as (source, _):
            return lexical.open_tagger(source.kind)

    def pos_tags(self, words: Sequence[str]) -> lexical.TaggedWords:
        """Return (word, universal tag) for each word, tagged in context. Results are cached."""
        key = tuple(words)
        tags = self._tags.get(key)
        if tags is None:
            tags = self._tagger(key)
            self._tags.put(key, tags)
        return tags

    def pos_tag(self, words: Sequence[str], place: int) -> str:
        """Return the universal tag of the word at index `place`, tagged in context. Results are cached."""
        tagger = self._tagger
        if not isinstance(tagger, lexical.NltkTagger):
            return self.pos_tags(words)[place][1]
        # A tag depends on the words up to REACH places further, so longer texts with the same beginning share it.
        key: tuple[int | str, ...] = (place, *words[: place + 1 + tagger.REACH])
        tag = self._tag.get(key)
        if tag is None:
            tag = tagger.at(words, place)
            self._tag.put(key, tag)
        return tag

    def tags_tried(self, before: Sequence[str], tried: Sequence[str], after: Sequence[str]) -> list[str]:
        """Return the universal tag of each word tried between these words. Results are cached, as in `pos_tag`."""
        tagger, place = self._tagger, len(before)
        if not isinstance(tagger, lexical.NltkTagger):
            return [self.pos_tags([*before, word, *after])[place][1] for word in tried]
        near = after[: tagger.REACH]
        return self._tag.filled(
            [(place, *before, word, *near) for word in tried],
            lambda keys: tagger.tags_tried(before, [str(key[1 + place]) for key in keys], near),
        )

    @cached_property
    def stopwords(self) -> frozenset[str]:
        """Lower-case words that attacks do not replace."""
        with self._open("stopwords") as (source, _):
            return mini.stopwords() if source.kind == "mini" else lexical.nltk_stopwords()
