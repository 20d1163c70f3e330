"""Edit a whole corpus (`rbench.train.edits`) once, with several processes, and keep the edits in a file.

Tagging and thesaurus look-ups take nearly all of the time and are shared among worker processes. This process draws
the replacements. The workers are started fresh, not forked from a process with PyTorch's threads. They do not import
torch, and they end before the drawing begins.

The file has a JSON line for each distinct text, and a last line with the file's address and the counts. The address
is a hash of all that decides the content: texts, options, seed, the data of thesaurus and tagger, the versions of
their packages, and the source of the code. It names the file.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from rbench.resources import locate
from rbench.resources.lexical import Tags, open_tagger
from rbench.resources.thesaurus import Related, Thesaurus, check, open_thesaurus
from rbench.spec import ResourceKind, ResourceProfile
from rbench.system.capacity import shared_cores
from rbench.system.located import Located
from rbench.train.edits import Edit, EditOptions, Editor
from rbench.train.processes import CHUNK, Pool
from rbench.train.replaceable import Tagged, Type, tagged, types

VERSION = 1

NEEDS: tuple[ResourceKind, ...] = ("synonyms", "pos_tagger")
FEW = 5000
"""Up to this number of texts, several processes are no faster than one, because each of them opens WordNet."""
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class LexiconSource:
    """A thesaurus and a tagger, described so that another process can open them."""

    thesaurus: str
    tagger: str
    fingerprint: str
    """Hash of the data of both."""
    folders: tuple[str, ...] = ()
    """Folders in which NLTK looks for its data; empty if NLTK is not used."""
    places: tuple[Located, ...] = ()
    """Places of both."""

    @classmethod
    def of(
        cls,
        profile: ResourceProfile,
        models_path: Sequence[Path] = (),
        places: Mapping[ResourceKind, Located] | None = None,
    ) -> LexiconSource:
        """Describe the lexicon in `places`, or look for it on `models_path` if `places` is None.

        ResourceError if something is missing, or if the synonyms are a list without antonyms.
        """
        from rbench.resources.locate import loader

        found = places if places is not None else locate(profile, NEEDS, models_path)
        sources = [getattr(profile, kind) for kind in NEEDS]
        kinds = [loader(kind, source) for kind, source in zip(NEEDS, sources, strict=True)]
        check(kinds[0])
        marks = "\n".join(found[kind].fingerprint for kind in NEEDS)
        lie = tuple(found[kind] for kind in NEEDS)
        if kinds == ["mini", "mini"]:
            return cls("mini", "mini", marks, places=lie)
        import nltk

        return cls(kinds[0], kinds[1], marks, tuple(map(str, nltk.data.path)), lie)


@dataclass
class Counts:
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
    the options (`edits.rate`)."""
    antonym_rate: float = 0.0
    """The same for x_ant."""

    def add(self, found: Tagged, synonymous: Edit, contrary: Edit) -> None:
        """Count the edits of one text."""
        self.texts += 1
        self.words += found.words
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


class Edits:
    """Look up (x_syn, x_ant) by text, and the `counts` of the corpus.

    The file is held in memory: half a gigabyte for a million sentences.
    """

    def __init__(self, path: Path, texts: Sequence[str], address: str) -> None:
        """Read the file. ValueError if it is incomplete or has another address."""
        lines = path.read_bytes().splitlines()
        said = json.loads(lines[-1]) if lines else None
        if not isinstance(said, dict) or said.get("address") != address or len(lines) != len(texts) + 1:
            raise ValueError(f"{path} is damaged")
        self.counts = Counts(**said["counts"])
        self._lines = dict(zip(texts, lines, strict=False))

    def __getitem__(self, text: str) -> tuple[Edit, Edit]:
        same, other = json.loads(self._lines[text])
        return _edit(*same), _edit(*other)


def of_corpus(
    texts: Sequence[str],
    folder: Path,
    lexicon: LexiconSource,
    options: EditOptions,
    seed: int,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Edits:
    """Return the edits of all `texts`. Read them from `folder` if they are there, else make and keep them.

    Args:
        texts: the corpus; duplicates are edited once.
        folder: the folder of edits, which several runs may share.
        lexicon: the thesaurus and the tagger.
        options: how much is replaced.
        seed: seed of all draws.
        progress: called with the number of texts tagged.
        workers: number of processes. None takes one for each core, or for each of OMP_NUM_THREADS if these are fewer; a
            single one for a small corpus (`FEW`).

    Raises:
        JobError: a process died, or the thesaurus or the tagger changed meanwhile.
    """
    distinct = sorted(set(texts))
    address = _address(distinct, lexicon, options, seed)
    path = folder / f"edits-{address[:16]}.jsonl"
    with suppress(FileNotFoundError, ValueError):
        return Edits(path, distinct, address)
    folder.mkdir(parents=True, exist_ok=True)
    counts = Counts()
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, suffix=".part", delete=False) as file:
        try:
            for one in generate(distinct, lexicon, options, seed, counts, progress, workers):
                file.write(json.dumps([[e.text, e.spans, e.antonyms] for e in one]) + "\n")
            file.write(json.dumps({"address": address, "counts": asdict(counts)}) + "\n")
            file.close()
            for place in lexicon.places:  # edits made with changed data must not get the address of the old data
                place.check()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return Edits(path, distinct, address)


def generate(
    texts: Sequence[str],
    lexicon: LexiconSource,
    options: EditOptions,
    seed: int,
    counts: Counts,
    progress: Progress | None = None,
    workers: int | None = None,
) -> Iterator[tuple[Edit, Edit]]:
    """Yield (x_syn, x_ant) of each text in order, and add them to `counts`."""
    count = min(workers or (shared_cores() if len(texts) > FEW else 1), -(-len(texts) // CHUNK))
    with Pool(count, __name__, _begin, lexicon.folders) as pool:
        found: list[Tagged] = []
        for part in pool.map(partial(_tag, lexicon.tagger, lexicon.fingerprint), texts):
            found += part
            if progress is not None:
                progress(len(found), len(texts), "texts tagged for edits")
        occurring = types(texts, found)
        kinds = sorted(occurring)
        looked_up = chain.from_iterable(pool.map(partial(_look_up, lexicon.thesaurus, lexicon.fingerprint), kinds))
        table = dict(zip(kinds, looked_up, strict=True))
    editor = Editor(options, seed, table, occurring, texts, found)
    counts.synonym_rate, counts.antonym_rate = editor.synonym_rate, editor.antonym_rate
    for text, one in zip(texts, found, strict=True):
        edits = editor.edit(text, one)
        counts.add(one, *edits)
        yield edits


def _address(texts: Sequence[str], lexicon: LexiconSource, options: EditOptions, seed: int) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    root = Path(__file__).resolve().parent.parent
    own = [f"train/{name}.py" for name in ("edits", "edited", "replaceable")]
    code = (*own, "resources/thesaurus.py", "resources/lexical.py", "mini/thesaurus.py")
    said = {
        "texts": digest.hexdigest(),
        "options": options.model_dump(),
        "seed": seed,
        "lexicon": [lexicon.thesaurus, lexicon.tagger, lexicon.fingerprint],
        "packages": {name: version(name) for name in ("nltk", "lemminflect")},
        "code": [hashlib.sha256((root / name).read_bytes()).hexdigest() for name in code],
    }
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _edit(text: str, spans: Sequence[Sequence[int]], antonyms: int) -> Edit:
    return Edit(text, tuple((start, end) for start, end in spans), antonyms)


# Both are opened on first use, not when the process starts, so that an error is raised by the call. The fingerprint
# is part of the cache key, because the data may change while this process lives.


@cache
def _tagger(kind: str, fingerprint: str) -> Callable[[Sequence[str]], Tags]:
    return open_tagger(kind)


@cache
def _thesaurus(kind: str, fingerprint: str) -> Thesaurus:
    return open_thesaurus(kind)


def _begin(folders: tuple[str, ...]) -> None:
    if folders:
        import nltk

        nltk.data.path[:] = folders


def _tag(kind: str, fingerprint: str, texts: Sequence[str]) -> list[Tagged]:
    tagger = _tagger(kind, fingerprint)
    return [tagged(text, tagger) for text in texts]


def _look_up(kind: str, fingerprint: str, types: Sequence[Type]) -> list[Related]:
    thesaurus = _thesaurus(kind, fingerprint)
    return [thesaurus(word, tag) for word, tag in types]
