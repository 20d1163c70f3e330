"""Edit a whole corpus (`rbench.train.edits`) once, with several processes, and keep the edits in a file.

Tagging and thesaurus look-ups take nearly all of the time and are shared among worker processes. This process draws
the replacements. A process that is forked while other threads hold locks may hang. So workers are forked from a server
that has imported only what they need and no torch; without fork servers they are started fresh. They end before the
drawing begins.

The file has a JSON line for each distinct text, and a last line with the file's address and the counts. The address
is a hash of all that decides the content: texts, options, seed, the data of thesaurus and tagger, the versions of
their packages, and the source of the code. It names the file.
"""

from __future__ import annotations

import hashlib
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rbench.errors import JobError
from rbench.resources.lexical import Tags, open_tagger
from rbench.resources.locate import loader
from rbench.resources.thesaurus import Related, Thesaurus, check, open_thesaurus
from rbench.spec import ResourceKind
from rbench.system import processes
from rbench.system.below import Below
from rbench.system.capacity import shared_cores
from rbench.system.located import Located
from rbench.train.edits import Edit, EditOptions, Editor, Tagged, Type, tagged, types

if TYPE_CHECKING:
    from rbench.resources import Resources

VERSION = 1

NEEDS: tuple[ResourceKind, ...] = ("synonyms", "pos_tagger")
FEW = 5000
"""Up to this number of texts, several processes are no faster than one, because each of them opens WordNet."""
CHUNK = 250
"""Number of items that a process gets at a time."""
Progress = Callable[[int, int, str], None]
T = TypeVar("T")
R = TypeVar("R")


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
    def of(cls, resources: Resources) -> LexiconSource:
        """Describe the lexicon. ResourceError if it is missing, or if the synonyms are a list without antonyms."""
        places = tuple(resources.located(kind) for kind in NEEDS)
        kinds = [loader(kind, getattr(resources.profile, kind)) for kind in NEEDS]
        check(kinds[0])
        marks = "\n".join(place.fingerprint for place in places)
        if kinds == ["mini", "mini"]:
            return cls("mini", "mini", marks, places=places)
        import nltk

        return cls(kinds[0], kinds[1], marks, tuple(map(str, nltk.data.path)), places)


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
        same, other = (
            Edit(edited, tuple((start, end) for start, end in spans), antonyms)
            for edited, spans, antonyms in json.loads(self._lines[text])
        )
        return same, other


def of_corpus(
    texts: Sequence[str],
    folder: Path,
    lexicon: LexiconSource,
    options: EditOptions,
    seed: int,
    progress: Progress | None = None,
) -> Edits:
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
    distinct = sorted(set(texts))
    address = _address(distinct, lexicon, options, seed)
    path = folder / f"edits-{address[:16]}.jsonl"
    with suppress(FileNotFoundError, ValueError):
        return Edits(path, distinct, address)
    counts = Counts()
    made = generate(distinct, lexicon, options, seed, counts, progress)
    content = "".join(json.dumps([[e.text, e.spans, e.antonyms] for e in one]) + "\n" for one in made)
    content += json.dumps({"address": address, "counts": asdict(counts)}) + "\n"
    for place in lexicon.places:  # edits made with changed data must not get the address of the old data
        place.check()
    Below(folder).replace(path, content.encode())
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
    """Yield (x_syn, x_ant) of each text in order, and add them to `counts`.

    There is a process for each of `workers`. None: for each core, or for each of OMP_NUM_THREADS if these are fewer; a
    single one for a small corpus (`FEW`).
    """
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
    own = [f"train/{name}.py" for name in ("edits", "edited")]
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


# ------------------------------------------------------------------------------------------------------ processes


class Pool:
    """Map a function over chunks of items in `count` processes, or in this process if `count` is below 2.

    Exceptions of the function are raised in the caller.

    Args:
        count: number of processes.
        module: the module that processes import first.
        begin, arguments: each process calls begin(*arguments) once, at its start.
    """

    def __init__(self, count: int, module: str, begin: Callable[..., None], *arguments: Any) -> None:
        self._executor: ProcessPoolExecutor | None = None
        if count < 2:
            return
        context = processes.context()
        if context.get_start_method() == "forkserver":
            context.set_forkserver_preload([module])
        self._executor = ProcessPoolExecutor(
            count, mp_context=context, initializer=_begin_process, initargs=(begin, arguments)
        )

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=error[0] is None, cancel_futures=True)

    def map(self, function: Callable[[Sequence[T]], list[R]], items: Sequence[T]) -> Iterator[list[R]]:
        """Yield function(chunk) for each chunk of `items`, in order. JobError if a process died."""
        chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
        if self._executor is None:
            yield from map(function, chunks)
            return
        try:
            with processes.starting(deaf=True):  # the first chunks start the processes
                found = self._executor.map(function, chunks)
            yield from found
        except BrokenProcessPool as error:
            raise JobError("a worker process died without an error; it may have run out of memory") from error


def _begin_process(begin: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    begin(*arguments)
