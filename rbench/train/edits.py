"""Edit sentences for CLINE (Wang et al. 2021, section 3.1): x_syn keeps the meaning, x_ant changes it.

Words that may be replaced are verbs, nouns, adjectives and adverbs by the universal tag of a part-of-speech tagger.
Auxiliaries and `not` are excluded by a list, because universal tags do not tell them from other verbs and adverbs.
Capitalised words within a sentence are excluded as names. x_syn replaces a word by a synonym, a hypernym or
another inflection; each kind that the word has is equally likely (ours). x_ant replaces words that have antonyms first,
by an antonym. It replaces other words by words of the corpus. These have the same tag, are drawn by their frequency, so
that rarity does not reveal them (ours), and are never related to the word in the thesaurus.

The paper replaces about 40% and 20% of tokens. Here the share is of words (tokens with a letter or a digit), and it
holds for the whole corpus: if a sentence has too few replaceable words, more are replaced in others (`find_rate`). At
least one word is replaced in every sentence that has a replaceable word. Each sentence has its own generator, seeded
with (seed, sentence).

A whole corpus is edited once, with several processes, and its edits are kept in a file (`edit_corpus`). Tagging and
thesaurus look-ups take nearly all of the time and are shared among worker processes. This process draws the
replacements. A process that is forked while other threads hold locks may hang. So workers are forked from a server that
has imported only what they need and no torch; without fork servers they are started fresh. They end before the drawing
begins.

The file has a JSON line for each distinct text, and a last line with the file's address and the counts. The address is
a hash of all that decides the content: texts, options, seed, the data of thesaurus and tagger, the versions of their
packages, and the source of the code. It names the file.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import signal
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from rbench.schema import ResourceKind
from rbench.schema.common import Positive, Share, Strict
from rbench.system import processes
from rbench.system.below import SafeFolder
from rbench.system.digests import FingerprintedPlace
from rbench.system.processes import shared_cores
from rbench.train.options import Progress
from rbench.words.resources.lexical import open_tagger
from rbench.words.resources.locate import choose_loader
from rbench.words.resources.thesaurus import TAGS, RelatedWords, check_kind, open_thesaurus

if TYPE_CHECKING:
    from rbench.words.resources import Resources

# The order of these draws is part of the result. A change of it, or of the tokens, raises VERSION: encoders trained
# by CLINE are then trained anew. The edit files need no VERSION, since their address hashes this file (`_hash_inputs`).
VERSION = 1

NEEDS: tuple[ResourceKind, ...] = ("synonyms", "pos_tagger")
MAX_TEXTS_IN_PROCESS = 5000
"""Up to this number of texts, several processes are no faster than one, because each of them opens WordNet."""
CHUNK_SIZE = 250
"""Number of items that a process gets at a time."""
ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_TRIES = 50
WordType = tuple[str, str]
"""A lower-case word and its universal tag."""
_CLITIC = r"['’](?:s|m|d|re|ve|ll)\b"
_TOKEN = re.compile(
    rf"<\w+>|\w+(?=n['’]t\b)|n['’]t\b|{_CLITIC}|\w+(?:[-.]\w+|(?!{_CLITIC})['’]\w+)*|``|''|[^\w\s]", re.IGNORECASE
)
"""Tokens as in treebanks (do n't, film 's). Words keep their inner hyphens, dots and apostrophes."""
_WORD = re.compile(r"[A-Za-z]{2,}(?:-[A-Za-z]+)*")
_AUXILIARIES = frozenset(
    [
        *("am", "is", "are", "was", "were", "be", "been", "being", "ai", "have", "has", "had", "having"),
        *("do", "does", "did", "doing", "done", "can", "ca", "cannot", "could", "may", "might", "must", "shall"),
        *("sha", "should", "will", "wo", "would", "ought", "need", "dare", "not"),
    ]
)


class EditOptions(Strict):
    """How many words are replaced, and how near their replacements are."""

    synonym_share: Share = 0.4
    """Share of words replaced in x_syn, over the corpus: "about 40%"."""
    antonym_share: Share = 0.2
    """Share of words replaced in x_ant: "about 20%"."""
    nearest: Positive = 3
    """A replacement is drawn from the first `nearest` of its kind, as thesauri list the most frequent sense first
    (ours)."""


@dataclass(frozen=True)
class SentenceEdit:
    """An edited text, the `spans` (start, end) of its replacements, and how many of them are `antonyms`."""

    text: str
    spans: tuple[tuple[int, int], ...]
    antonyms: int = 0


class ReplaceableWord(NamedTuple):
    """A replaceable word, text[start:end], and its universal tag."""

    start: int
    end: int
    tag: str


@dataclass(frozen=True, slots=True)
class TaggedWords:
    """The number of words of a text, and its replaceable words, packed as three numbers each (`places`)."""

    words: int
    packed: array[int]

    def places(self) -> Iterator[ReplaceableWord]:
        """Return the replaceable words in the order of the text."""
        numbers = iter(self.packed)
        return (
            ReplaceableWord(start, end, TAGS[tag]) for start, end, tag in zip(numbers, numbers, numbers, strict=True)
        )


def tag_text(text: str, tagger: Callable[[Sequence[str]], Sequence[tuple[str, str]]]) -> TaggedWords:
    """Find the replaceable words of `text`. `tagger` tags all its tokens in context."""
    tokens = list(_TOKEN.finditer(text))
    packed, words, at_sentence_start = array("I"), 0, True
    for token, (word, tag) in zip(tokens, tagger([token[0] for token in tokens]), strict=True):
        is_name = word[0].isupper() and not at_sentence_start
        if tag in TAGS and not is_name and _WORD.fullmatch(word) and word.lower() not in _AUXILIARIES:
            packed.extend((token.start(), token.end(), TAGS.index(tag)))
        if any(map(str.isalnum, word)):
            words, at_sentence_start = words + 1, False
        elif word in ".!?":
            # At the start of a sentence a capital letter says nothing about names.
            at_sentence_start = True
    return TaggedWords(words, packed)


def count_types(texts: Sequence[str], tagged_texts: Sequence[TaggedWords]) -> Counter[WordType]:
    """Count how often each replaceable word occurs under each tag."""
    return Counter(
        (text[place.start : place.end].lower(), place.tag)
        for text, tagged_text in zip(texts, tagged_texts, strict=True)
        for place in tagged_text.places()
    )


def find_rate(share: float, words: Sequence[int], most: Sequence[int]) -> float:
    """Return the least q in 0..1 at which `share` of all words are replaced; 1 if no q reaches it.

    At q, `expected_count(q, n, m)` words are replaced in a sentence of n words of which m are replaceable.

    Args:
        share: share of all words to replace, 0..1.
        words: n for each sentence.
        most: m for each sentence.
    """
    n, m = np.asarray(words, dtype=float), np.asarray(most, dtype=float)
    low, high = 0.0, 1.0
    # 40 halvings leave an error of 1e-12 in q, far less than a word in any corpus.
    for _ in range(40):
        q = (low + high) / 2
        # Clipping makes the count nonlinear in q, but it never falls as q rises, so bisection finds q.
        enough = np.clip(q * n, np.minimum(1, m), m).sum() >= share * n.sum()
        if enough:
            high = q
        else:
            low = q
    return high


def expected_count(q: float, words: int, most: int) -> float:
    """Return the mean number of words to replace: a share q of `words`, at least 1, at most `most`."""
    return float(min(max(q * words, 1), most))


class SentenceEditor:
    """Make x_syn and x_ant for the sentences of one corpus.

    Args:
        options: how much is replaced.
        seed: seed of all draws.
        table: the thesaurus entry of each word type of the corpus.
        counts: frequency of each word type. Words of the corpus are drawn by it.
        texts, tagged_texts: the corpus and its replaceable words; they decide the two rates.
    """

    def __init__(
        self,
        options: EditOptions,
        seed: int,
        table: Mapping[WordType, RelatedWords],
        counts: Mapping[WordType, int],
        texts: Sequence[str],
        tagged_texts: Sequence[TaggedWords],
    ) -> None:
        self._options, self._seed, self._table = options, seed, table
        self._same = {kind for kind, related in table.items() if _similar_words(related)}
        words_by_tag = {tag: sorted(word for word, word_tag in counts if word_tag == tag) for tag in TAGS}
        # With their cumulative counts, as `random.choices` takes them, so that words are drawn by frequency.
        self._drawn = {
            tag: (tag_words, list(accumulate(counts[word, tag] for word in tag_words)))
            for tag, tag_words in words_by_tag.items()
        }
        self._other = {kind for kind, related in table.items() if related.antonyms or len(words_by_tag[kind[1]]) > 1}
        words, num_with_synonyms, num_with_negatives = (
            [tagged_text.words for tagged_text in tagged_texts],
            list[int](),
            list[int](),
        )
        for text, tagged_text in zip(texts, tagged_texts, strict=True):
            kinds = [_type_of(text, place) for place in tagged_text.places()]
            num_with_synonyms.append(sum(kind in self._same for kind in kinds))
            num_with_negatives.append(sum(kind in self._other for kind in kinds))
        self.synonym_rate = find_rate(options.synonym_share, words, num_with_synonyms)
        self.antonym_rate = find_rate(options.antonym_share, words, num_with_negatives)

    def edit(self, text: str, tagged_text: TaggedWords) -> tuple[SentenceEdit, SentenceEdit]:
        """Return (x_syn, x_ant). Either is the text itself, without spans, if no word can be replaced."""
        # Only `random` and `choices` of it are used: they are the same in every version of Python.
        rng = random.Random(f"{self._seed}\0{text}")
        places = [(place, _type_of(text, place)) for place in tagged_text.places()]
        with_synonyms = sorted(
            (typed_place for typed_place in places if typed_place[1] in self._same), key=lambda _: rng.random()
        )
        synonyms: dict[ReplaceableWord, str] = {}
        for place, kind in with_synonyms[: _draw_count(self.synonym_rate, tagged_text.words, len(with_synonyms), rng)]:
            nearest = rng.choices(_similar_words(self._table[kind]))[0][: self._options.nearest]
            synonyms[place] = rng.choices(nearest)[0]
        with_negatives = sorted(
            (typed_place for typed_place in places if typed_place[1] in self._other), key=lambda _: rng.random()
        )
        with_negatives.sort(
            key=lambda typed_place: not self._table[typed_place[1]].antonyms
        )  # stable: antonyms first, in the order drawn
        antonyms: dict[ReplaceableWord, str] = {}
        count, num_antonyms = _draw_count(self.antonym_rate, tagged_text.words, len(with_negatives), rng), 0
        for place, kind in with_negatives:
            if len(antonyms) == count:
                break
            nearest = self._table[kind].antonyms[: self._options.nearest]
            word = rng.choices(nearest)[0] if nearest else self._draw_stranger(kind, rng)
            if word is not None:
                antonyms[place], num_antonyms = word, num_antonyms + bool(nearest)
        return _replace_words(text, synonyms), _replace_words(text, antonyms, num_antonyms)

    def _draw_stranger(self, kind: WordType, rng: random.Random) -> str | None:
        """Draw a word of the corpus with the same tag that is unrelated to this one; None after `_TRIES` failures."""
        related = {kind[0], *self._table[kind].all}
        for _ in range(_TRIES):
            words, sums = self._drawn[kind[1]]
            word = rng.choices(words, cum_weights=sums)[0]  # by frequency
            # Its inflections are compared too, so that no form of a related word is drawn.
            if related.isdisjoint((word, *self._table[word, kind[1]].forms)):
                return word
        return None


def mark_replaced(
    offsets: Sequence[tuple[int, int]], special: Sequence[int], spans: Sequence[tuple[int, int]]
) -> list[int]:
    """Return delta_t of equation 4: 1 for each token within a replacement, that is each piece of a new word; else 0.

    Args:
        offsets: (start, end) of each token in the edited text. Byte-level BPE may make a token of the space before a
            word. Its offsets are empty and start at the word's first letter, so it counts as a piece of that word.
        special: 1 for special tokens, which have no place in the text.
        spans: `SentenceEdit.spans`.
    """
    flags, next_span = [], 0
    for (start, end), is_special in zip(offsets, special, strict=True):
        while not is_special and next_span < len(spans) and spans[next_span][1] <= start:
            next_span += 1
        flags.append(int(not is_special and next_span < len(spans) and spans[next_span][0] < max(end, start + 1)))
    return flags


def _type_of(text: str, place: ReplaceableWord) -> WordType:
    return text[place.start : place.end].lower(), place.tag


def _similar_words(related: RelatedWords) -> list[tuple[str, ...]]:
    return [words for words in (related.synonyms, related.hypernyms, related.forms) if words]


def _draw_count(q: float, words: int, most: int, rng: random.Random) -> int:
    """Round `expected_count` up or down at random, so that its mean is kept."""
    mean = expected_count(q, words, most)
    return int(mean) + (rng.random() < mean - int(mean))


def _replace_words(text: str, words: Mapping[ReplaceableWord, str], antonyms: int = 0) -> SentenceEdit:
    parts, spans, end_of_last, length = [], [], 0, 0
    for place in sorted(words):
        unchanged, word, original = text[end_of_last : place.start], words[place], text[place.start : place.end]
        if original.isupper():
            word = word.upper()
        elif original[0].isupper():
            word = word[0].upper() + word[1:]
        start = length + len(unchanged)
        parts += [unchanged, word]
        spans.append((start, start + len(word)))
        end_of_last, length = place.end, start + len(word)
    return SentenceEdit("".join((*parts, text[end_of_last:])), tuple(spans), antonyms)


# ---------------------------------------------------------------------------------------------------- whole corpora


@dataclass(frozen=True)
class LexiconSource:
    """A thesaurus and a tagger, described so that another process can open them."""

    thesaurus: str
    tagger: str
    fingerprint: str
    """Hash of the data of both."""
    folders: tuple[str, ...] = ()
    """Folders in which NLTK looks for its data; empty if NLTK is not used."""
    places: tuple[FingerprintedPlace, ...] = ()
    """Places of both."""

    @classmethod
    def of(cls, resources: Resources) -> LexiconSource:
        """Describe the lexicon. ResourceError if it is missing, or if the synonyms are a list without antonyms."""
        places = tuple(resources.located(kind) for kind in NEEDS)
        kinds = [choose_loader(kind, getattr(resources.resource_set, kind)) for kind in NEEDS]
        check_kind(kinds[0])
        fingerprints = "\n".join(place.fingerprint for place in places)
        if kinds == ["mini", "mini"]:
            return cls("mini", "mini", fingerprints, places=places)
        import nltk

        return cls(kinds[0], kinds[1], fingerprints, tuple(map(str, nltk.data.path)), places)


@dataclass
class EditCounts:
    """Counts of what was replaced in a corpus."""

    texts: int = 0
    words: int = 0
    synonyms: int = 0
    """Words replaced in x_syn."""
    antonyms: int = 0
    """Words replaced in x_ant by antonyms."""
    strangers: int = 0
    """Words replaced in x_ant by words of the corpus."""
    without_synonym: int = 0
    """Texts whose x_syn is the text itself."""
    without_antonym: int = 0
    """Texts whose x_ant has no antonym."""
    without_negative: int = 0
    """Texts whose x_ant is the text itself."""
    synonym_rate: float = 0.0
    """Share of words to replace in a sentence with enough replaceable words, so that the corpus reaches the share in
    the options (`edits.find_rate`)."""
    antonym_rate: float = 0.0
    """The same for x_ant."""

    def add(self, tagged_text: TaggedWords, synonymous: SentenceEdit, contrary: SentenceEdit) -> None:
        """Count the edits of one text."""
        self.texts += 1
        self.words += tagged_text.words
        self.synonyms += len(synonymous.spans)
        self.antonyms += contrary.antonyms
        self.strangers += len(contrary.spans) - contrary.antonyms
        self.without_synonym += not synonymous.spans
        self.without_antonym += not contrary.antonyms
        self.without_negative += not contrary.spans

    @property
    def synonym_share(self) -> float:
        """Return the share of words replaced in x_syn, 0..1."""
        return self.synonyms / max(1, self.words)

    @property
    def antonym_share(self) -> float:
        """Return the share of words replaced in x_ant, 0..1."""
        return (self.antonyms + self.strangers) / max(1, self.words)

    def __str__(self) -> str:
        return (
            f"{self.synonym_share:.1%} of words replaced in x_syn and {self.antonym_share:.1%} in x_ant (antonyms "
            f"{self.antonyms / max(1, self.words):.1%}); of {self.texts} texts {self.without_synonym} have no x_syn, "
            f"{self.without_antonym} no antonym, {self.without_negative} no x_ant"
        )


class CorpusEdits:
    """Look up (x_syn, x_ant) by text, and the `counts` of the corpus.

    The file is held in memory: half a gigabyte for a million sentences.
    """

    def __init__(self, path: Path, texts: Sequence[str], address: str) -> None:
        """Read the file. ValueError if it is incomplete or has another address."""
        lines = path.read_bytes().splitlines()
        # The last line is written last, so that a file that was cut off has none.
        footer = json.loads(lines[-1]) if lines else None
        if not isinstance(footer, dict) or footer.get("address") != address or len(lines) != len(texts) + 1:
            raise ValueError(f"{path} is damaged")
        self.counts = EditCounts(**footer["counts"])
        self._lines = dict(zip(texts, lines, strict=False))

    def __getitem__(self, text: str) -> tuple[SentenceEdit, SentenceEdit]:
        synonymous, contrary = (
            SentenceEdit(edited, tuple((start, end) for start, end in spans), antonyms)
            for edited, spans, antonyms in json.loads(self._lines[text])
        )
        return synonymous, contrary


def edit_corpus(
    texts: Sequence[str],
    folder: Path,
    lexicon: LexiconSource,
    options: EditOptions,
    seed: int,
    progress: Progress | None = None,
) -> CorpusEdits:
    """Return the edits of all `texts`. Read them from `folder` if they are there, else make and keep them.

    Args:
        texts: the corpus; duplicates are edited once.
        folder: the folder of edits, which several runs may share.
        lexicon: the thesaurus and the tagger.
        options: how much is replaced.
        seed: seed of all draws.
        progress: called with the number of texts tagged.

    Raises:
        JobError: a process died, or the thesaurus or the tagger changed meanwhile.
    """
    # Sorted and without duplicates, so that the address does not depend on the order of the corpus.
    distinct = sorted(set(texts))
    address = _hash_inputs(distinct, lexicon, options, seed)
    path = folder / f"edits-{address[:16]}.jsonl"
    with suppress(FileNotFoundError, ValueError):
        return CorpusEdits(path, distinct, address)
    counts = EditCounts()
    edit_pairs = generate(distinct, lexicon, options, seed, counts, progress)
    content = "".join(json.dumps([[e.text, e.spans, e.antonyms] for e in edit_pair]) + "\n" for edit_pair in edit_pairs)
    content += json.dumps({"address": address, "counts": asdict(counts)}) + "\n"
    for place in lexicon.places:  # edits made with changed data must not get the address of the old data
        place.check()
    SafeFolder(folder).replace(path, content.encode())
    return CorpusEdits(path, distinct, address)


def generate(
    texts: Sequence[str],
    lexicon: LexiconSource,
    options: EditOptions,
    seed: int,
    counts: EditCounts,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Iterator[tuple[SentenceEdit, SentenceEdit]]:
    """Yield (x_syn, x_ant) of each text in order, and add them to `counts`.

    There is a process for each of `workers`. None: for each core, or for each of OMP_NUM_THREADS if these are fewer; a
    single one for a small corpus (`FEW_ROWS`).
    """
    count = min(workers or (shared_cores() if len(texts) > MAX_TEXTS_IN_PROCESS else 1), -(-len(texts) // CHUNK_SIZE))
    with EditWorkers(count, lexicon.folders) as pool:
        tagged_texts: list[TaggedWords] = []
        for tagged_chunk in pool.map(partial(_tag, lexicon.tagger, lexicon.fingerprint), texts):
            tagged_texts += tagged_chunk
            if progress is not None:
                progress(len(tagged_texts), len(texts), "texts tagged for edits")
        occurring = count_types(texts, tagged_texts)
        kinds = sorted(occurring)
        looked_up = chain.from_iterable(pool.map(partial(_look_up, lexicon.thesaurus, lexicon.fingerprint), kinds))
        table = dict(zip(kinds, looked_up, strict=True))
    editor = SentenceEditor(options, seed, table, occurring, texts, tagged_texts)
    counts.synonym_rate, counts.antonym_rate = editor.synonym_rate, editor.antonym_rate
    for text, tagged_text in zip(texts, tagged_texts, strict=True):
        edits = editor.edit(text, tagged_text)
        counts.add(tagged_text, *edits)
        yield edits


def _hash_inputs(texts: Sequence[str], lexicon: LexiconSource, options: EditOptions, seed: int) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    root = Path(__file__).resolve().parent.parent
    code = ("train/edits.py", "words/resources/thesaurus.py", "words/resources/lexical.py", "mini/thesaurus.py")
    content = {
        "texts": digest.hexdigest(),
        "options": options.model_dump(),
        "seed": seed,
        "lexicon": [lexicon.thesaurus, lexicon.tagger, lexicon.fingerprint],
        "packages": {name: version(name) for name in ("nltk", "lemminflect")},
        "code": [hashlib.sha256((root / name).read_bytes()).hexdigest() for name in code],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# Both are opened on first use, not when the process starts, so that an error is raised by the call. The fingerprint
# is part of the cache key, because the data may change while this process lives.


@cache
def _open_once(open_it: Callable[[str], ItemT], kind: str, fingerprint: str) -> ItemT:
    return open_it(kind)


def _tag(kind: str, fingerprint: str, texts: Sequence[str]) -> list[TaggedWords]:
    tagger = _open_once(open_tagger, kind, fingerprint)
    return [tag_text(text, tagger) for text in texts]


def _look_up(kind: str, fingerprint: str, types: Sequence[WordType]) -> list[RelatedWords]:
    thesaurus = _open_once(open_thesaurus, kind, fingerprint)
    return [thesaurus(word, tag) for word, tag in types]


# ------------------------------------------------------------------------------------------------------ processes


class EditWorkers:
    """Map a function over chunks of items in `count` processes, or in this process if `count` is below 2.

    Exceptions of the function are raised in the caller.

    Args:
        count: number of processes.
        folders: where NLTK looks for its data in these processes; empty if NLTK is not used.
    """

    def __init__(self, count: int, folders: tuple[str, ...] = ()) -> None:
        self._executor: ProcessPoolExecutor | None = None
        if count < 2:
            return
        context = processes.process_context()
        if context.get_start_method() == "forkserver":
            context.set_forkserver_preload([__name__])
        self._executor = ProcessPoolExecutor(count, mp_context=context, initializer=_start_worker, initargs=(folders,))

    def __enter__(self) -> EditWorkers:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=error[0] is None, cancel_futures=True)

    def map(
        self, function: Callable[[Sequence[ItemT]], list[ResultT]], items: Sequence[ItemT]
    ) -> Iterator[list[ResultT]]:
        """Yield function(chunk) for each chunk of `items`, in order."""
        chunks = [items[start : start + CHUNK_SIZE] for start in range(0, len(items), CHUNK_SIZE)]
        if self._executor is None:
            yield from map(function, chunks)
            return
        with processes.start_safely(deaf=True):  # the first chunks start the processes
            results = self._executor.map(function, chunks)
        yield from results


def _start_worker(folders: tuple[str, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    if folders:
        import nltk

        nltk.data.path[:] = folders
