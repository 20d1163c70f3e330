"""Asks an endpoint that answers as OpenAI's `/v1/embeddings` does for the vectors of texts, each text once.

    CACHE/endpoints/<digits>/about.json    what was asked, how long vectors are, and the vectors of the probe

Vectors lie beside it (`rbench.encoders.cached_vectors`). The digits are a hash of the URL and of what decides vectors.
A provider may put other weights behind the same name, also between two requests. The probe shows that: fixed texts,
whose vectors are asked for again when a job opens the encoder and when it ends, and one of which goes with every
request (`rbench.system.asking.Canaries`). Vectors of a request are kept only where that of the probe is as before.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from rbench.encoders.cached_vectors import CachedVectors, Vectors, key_of
from rbench.errors import AnswerError, JobError, ModelChangedError, ResourceError
from rbench.masking import bare
from rbench.schema import EncoderSpec, content_key
from rbench.schema.common import Embeddings
from rbench.system.asking import Canaries, Parallel, connected
from rbench.system.below import Below
from rbench.system.digests import Located
from rbench.system.scratch import default_cache, writing

VERSION = 1

PROBE = (
    "The story is warm and the actors carry it, although the last half hour drags.",
    "Nothing here works: the jokes are stale and the sound is worse.",
    "The bank raised its rates again, and the shares fell within the hour.",
    "How many moons does the largest planet have?",
    "The soup was not bad, but I would not order it twice.",
    "Ministers met in the capital and agreed on nothing.",
    "She plays the villain with obvious joy.",
    "Rain",
)
"""Texts whose vectors tell the weights behind one name from others."""
ROUNDS = 4
"""Requests for each connection of a round. What a round was answered is kept before the next begins."""
LONGEST = 1 << 16
"""Most numbers of a vector."""
BYTES_EACH = 1 << 18
"""Bytes of an answer for each of its texts: some 12,000 numbers in JSON."""

named: dict[str, tuple[str, Embeddings]] = {}
"""The endpoints that this process's user named, with the encoder's name, by their digits."""
_usage: dict[str, Counter[str]] = {}
_servers: WeakValueDictionary[str, VectorServer] = WeakValueDictionary()


def digits(endpoint: Embeddings) -> str:
    """Return the hash of what decides the vectors of an endpoint, as far as rbench can see: 64 hex digits."""
    return content_key(endpoint.model_copy(update={"url": bare(endpoint.url)}))


def locate(spec: EncoderSpec) -> Located:
    """Ask for the probe, and return the place of an encoder behind an endpoint. Its fingerprint is `digits`.

    Raises:
        ResourceError: it cannot be asked, or its vectors of the probe are no longer those that are kept.
    """
    assert spec.endpoint is not None
    mark = partial(_marked, name=spec.name, endpoint=spec.endpoint)
    where = f"the endpoint of encoder {spec.name}"
    return Located(where, mark(where), mark)


def _marked(where: str, *, name: str, endpoint: Embeddings) -> str:
    try:
        server = server_of(name, endpoint)
        server.check()
    except ModelChangedError:
        raise
    except (JobError, AnswerError) as error:
        raise ResourceError(str(error)) from None
    return server.digits


def server_of(name: str, endpoint: Embeddings) -> VectorServer:
    """Return what asks an endpoint: one object for all of this process, so that its limits hold for all."""
    of = digits(endpoint)
    named[of] = name, endpoint
    found = _servers.get(of)
    if found is None or found.endpoint != endpoint:
        found = _servers[of] = VectorServer(name, endpoint)
    return found


def usage(endpoint: Embeddings) -> Counter[str]:
    """Return what this process asked of an endpoint so far: `requests`, `texts`, and `tokens` as the server counts."""
    return Counter(_usage.get(digits(endpoint), {}))


def signature(endpoint: Embeddings) -> tuple[float, ...]:
    """Return what tells the weights behind an endpoint from others: the lengths of the probe's vectors, then the
    cosines of all pairs of them, rounded to four decimals; empty where it was not asked yet."""
    root = default_cache()
    probed = _probe_in(Below(root).read_json(root / "endpoints" / digits(endpoint) / "about.json"))
    if probed is None:
        return ()
    lengths = np.linalg.norm(probed.astype(np.float64), axis=1)
    unit = probed / np.maximum(lengths, 1e-12)[:, None]
    cosines = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    return tuple(round(float(one), 4) for one in (*lengths, *cosines))


class VectorServer:
    """Asks an endpoint for vectors, and keeps them.

    Args:
        name: the encoder's, for messages.
        endpoint: where and how it is asked.

    Raises:
        ResourceError: an environment variable is not set, or the cache cannot be written.
        JobError: it is not there, or its answer to the probe cannot be used.
    """

    def __init__(self, name: str, endpoint: Embeddings) -> None:
        self.name, self.endpoint, self.digits = name, endpoint, digits(endpoint)
        key = {} if endpoint.key is None else {"Authorization": f"Bearer ${{{endpoint.key}}}"}
        most = max(1 << 24, endpoint.batch_size * BYTES_EACH)
        self._poster = connected(endpoint, f"encoder `{name}`", key, most)
        self._parallel = Parallel(endpoint.concurrency)
        self._canaries = Canaries(len(PROBE), endpoint.batch_size)
        self._count = threading.Lock()
        self.dim: int | None = None
        root = default_cache()
        self._below, self._folder = Below(root), root / "endpoints" / self.digits
        with writing(root):
            self.probed = self._first_probe()
            self.dim = self.probed.shape[1]
            self._cached = CachedVectors(self._below, self._folder, self.dim)

    def check(self) -> None:
        """Ask for the probe again. Raises ModelChangedError where a vector is no longer the one that is kept."""
        self._compare(range(len(PROBE)), self._asked(PROBE, threading.Event(), alone=True))

    def _compare(self, places: Iterable[int], now: Sequence[Vectors]) -> None:
        """Raise ModelChangedError where vectors of the probe's texts at some places are not those that are kept."""
        worst = max(_gaps(self.probed[list(places)], np.stack(now)))
        if worst > self.endpoint.tolerance:
            raise ModelChangedError(
                f"encoder `{self.name}`: {bare(self.endpoint.url)} gives other vectors for {self.endpoint.model} than "
                f"before: of fixed texts, a cosine or a ratio of lengths is {worst:.2g} from 1. The provider seems to "
                "have put other weights behind the name. Give the encoder's endpoint another `version` to measure "
                "them; results of the old ones stay. Or several servers stand behind the address, and differ. If its "
                f"rounding is this coarse, write a larger `tolerance` (now {self.endpoint.tolerance:g})."
            )

    def vectors(self, texts: Sequence[str], progress: Callable[[int], object] | None = None) -> Vectors:
        """Return vectors (len(texts), dim) as the server gives them. Only texts that nobody asked for are sent.

        Raises:
            JobError: it is not available, or its answers cannot be used; what was answered so far is kept.
            ModelChangedError: another model answers. Of the requests that it answered nothing is kept.
            AnswerError: it refuses a text.
        """
        assert self.dim is not None
        keys = list(map(key_of, texts))
        found = self._cached.get(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if progress is not None and len(new) < len(texts):
            progress(len(texts) - len(new))
        left, size = [*new], self._canaries.room
        step = size * self.endpoint.concurrency * ROUNDS
        for start in range(0, len(left), step):
            part = left[start : start + step]
            asked = [[new[key] for key in part[i : i + size]] for i in range(0, len(part), size)]
            with writing(self._below.root):
                made = dict(zip(part, self._parallel(asked, self._ask_and_keep), strict=True))
                if not self._canaries.fit:
                    self._asked((), threading.Event())
                    self._cached.put(made)
            found |= made
            if progress is not None:
                progress(len(part))
        return np.array([found[key] for key in keys], np.float32).reshape(len(texts), self.dim)

    def _ask_and_keep(self, texts: Sequence[str], stop: threading.Event) -> list[Vectors]:
        made = self._asked(texts, stop)
        if self._canaries.fit:
            self._cached.put(dict(zip(map(key_of, texts), made, strict=True)))
        return made

    def _asked(self, texts: Sequence[str], stop: threading.Event, alone: bool = False) -> list[Vectors]:
        """Return the vectors of the texts of one request. Where it is refused, ask for each half, to find the text.

        One of the probe's texts goes with them, unless they are `alone`, or the only one that fits.
        """
        place = None if alone or (texts and not self._canaries.fit) else self._canaries.next()
        sent = texts if place is None else [*texts, PROBE[place]]
        where, harmless = f"encoder `{self.name}`: {bare(self.endpoint.url)}", self._body(PROBE[:1])
        kept = "Vectors that were answered are kept"
        try:
            answer = self._poster.ask(self._body(sent), harmless, stop, who=where, kept=kept)
        except AnswerError as error:
            failed = AnswerError(f"{where}: {error}")
            if not self._poster.answers(harmless):  # then it refuses any text
                raise JobError(str(failed)) from None
        else:
            self._tally(answer, len(sent))
            try:
                rows = self._read(answer, len(sent))
            except AnswerError as error:
                raise JobError(f"{where}: {error}. Is this the address of embeddings (`/v1/embeddings`)?") from None
            if place is not None:
                self._compare([place], [rows.pop()])
            return rows
        if len(texts) < 2:
            raise AnswerError(f"{failed}; asked for {(texts or sent)[0][:200]!r}")
        half = len(texts) // 2
        return [*self._asked(texts[:half], stop, alone), *self._asked(texts[half:], stop, alone)]

    def _body(self, texts: Sequence[str]) -> dict[str, Any]:
        endpoint = self.endpoint
        more = {} if endpoint.dimensions is None else {"dimensions": endpoint.dimensions}
        return {"model": endpoint.model, "input": list(texts), "encoding_format": endpoint.encoding, **more}

    def _tally(self, answer: Any, texts: int) -> None:
        told = answer.get("usage") if isinstance(answer, Mapping) else None
        tokens = told.get("total_tokens", told.get("prompt_tokens")) if isinstance(told, Mapping) else None
        with self._count:
            found = _usage.setdefault(self.digits, Counter())
            found.update(requests=1, texts=texts)
            if type(tokens) is int and 0 <= tokens < 1 << 40:
                found["tokens"] += tokens

    def _read(self, answer: Any, count: int) -> list[Vectors]:
        """Return the vectors of an answer in the order of the texts. Raises AnswerError where they are not one each."""
        data = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(data, list) or len(data) != count or not all(isinstance(one, Mapping) for one in data):
            many = f"a list of {len(data)}" if isinstance(data, list) else "no list"
            raise AnswerError(f"it answered {many} as `data` to {count} texts, not a mapping with the vector of each")
        places = [one.get("index", i) for i, one in enumerate(data)]
        if sorted(place for place in places if type(place) is int) != list(range(count)):
            raise AnswerError(f"its answer to {count} texts does not number them from 0 in `index`")
        rows: list[Any] = [None] * count
        for place, one in zip(places, data, strict=True):
            rows[place] = _vector(one.get("embedding"))
        wanted = self.dim or self.endpoint.dimensions or len(rows[0])
        for row in rows:
            if len(row) != wanted:
                raise AnswerError(f"it answered a vector of {len(row)} numbers, where {wanted} are expected")
        return rows

    def _first_probe(self) -> Vectors:
        """Return the probe's vectors as they were when the endpoint was first asked, here or by another process."""
        about = self._folder / "about.json"
        if (known := _probe_in(self._below.read_json(about))) is None:
            made = np.stack(self._asked(PROBE, threading.Event(), alone=True))
            said = {**json.loads(self.endpoint.model_dump_json(include={"model", "dimensions", "version"}))}
            said |= {"url": bare(self.endpoint.url), "dim": made.shape[1]}
            said["probe"] = base64.b64encode(made.astype("<f4").tobytes()).decode()
            content = json.dumps(said, indent=2).encode()
            if not self._below.make(about, content):
                # Another process was first. Its probe counts, so that all processes compare with the same vectors.
                known = _probe_in(self._below.read_json(about))
                if known is None:  # it is damaged, and so is what lies beside it
                    self._below.replace(about, content)
            return made if known is None else known
        return known


def _vector(value: Any) -> Vectors:
    """Return a vector (dim,) that a server gave: a list of numbers, or the base64 of float32, little-endian."""
    if isinstance(value, str):
        try:
            content = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            content = b""
        if not content or len(content) % 4:
            raise AnswerError("a vector is neither a list of numbers nor the base64 of 32-bit ones")
        row = np.frombuffer(content, "<f4").astype(np.float32)
    elif isinstance(value, list) and value and all(type(one) in (int, float) for one in value):
        with np.errstate(over="ignore"), suppress(OverflowError):
            row = np.array(value, np.float64).astype(np.float32)
            value = None
        if value is not None:
            raise AnswerError("a vector has a number that is too large")
    else:
        raise AnswerError("a vector is neither a list of numbers nor the base64 of 32-bit ones")
    if not np.isfinite(row).all():
        raise AnswerError("a vector has a number that is not finite")
    if len(row) > LONGEST:
        raise AnswerError(f"a vector has {len(row):,} numbers; at most {LONGEST:,} are read")
    return row


def _probe_in(about: Mapping[str, Any] | None) -> Vectors | None:
    """Return the probe's vectors (texts, dim) that an about.json holds; None where it holds none."""
    with suppress(TypeError, KeyError, ValueError):
        if about is not None:
            found = np.frombuffer(base64.b64decode(about["probe"], validate=True), "<f4").reshape(len(PROBE), -1)
            if found.size and np.isfinite(found).all():
                return found.astype(np.float32)
    return None


def _gaps(before: Vectors, now: Vectors) -> Iterator[float]:
    """Yield for each text how far the cosine of two vectors, or the ratio of their lengths, is from 1."""
    if before.shape != now.shape:
        yield float("inf")
        return
    for u, v in zip(before.astype(np.float64), now.astype(np.float64), strict=True):
        lengths = np.linalg.norm(u), np.linalg.norm(v)
        if not min(lengths):
            yield 0.0 if lengths[0] == lengths[1] else float("inf")
        else:
            yield float(max(1 - u @ v / (lengths[0] * lengths[1]), max(lengths) / min(lengths) - 1))
