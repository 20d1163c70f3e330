"""Asks an endpoint that answers as OpenAI's `/v1/embeddings` does for the vectors of texts, each text once.

    CACHE/endpoints/<digits>/about.json    what was asked, how long vectors are, and the vectors of the probe

Vectors lie beside it (`rbench.encoders.cached_vectors`). The digits are a hash of the URL and of what decides vectors.
A provider may put other weights behind the same name, also between two requests. The probe shows that: fixed texts,
whose vectors are asked for again when a job opens the encoder and when it ends, and one of which goes with every
request (`rbench.system.asking.CanaryTexts`). Vectors of a request are kept only where that of the probe is as before.
"""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from rbench.encoders.cached_vectors import CachedVectors, Vectors, hash_text
from rbench.errors import AnswerError, JobError, ModelChangedError, ResourceError
from rbench.masking import bare
from rbench.schema import EncoderSpec, content_key
from rbench.schema.common import EmbeddingsEndpoint
from rbench.system.asking import CanaryTexts, ParallelAsker, connect
from rbench.system.below import SafeFolder
from rbench.system.digests import FingerprintedPlace
from rbench.system.scratch import default_cache, writable_cache

# Part of the key of every job on an encoder behind an endpoint (config/versions.py). Raising it makes these anew, but
# vectors in the cache stay: they are found by what the endpoint was asked.
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
REQUESTS_A_CONNECTION = 4
"""Requests for each connection of a round. What a round was answered is kept before the next begins."""
LONGEST_VECTOR = 1 << 16
"""Most numbers of a vector."""
BYTES_A_TEXT = 1 << 18
"""Bytes of an answer for each of its texts: some 12,000 numbers in JSON."""

named: dict[str, tuple[str, EmbeddingsEndpoint]] = {}
"""The endpoints that this process's user named, with the encoder's name, by their digits."""
_usage: dict[str, Counter[str]] = {}
_servers: WeakValueDictionary[str, VectorServer] = WeakValueDictionary()


def hash_endpoint(endpoint: EmbeddingsEndpoint) -> str:
    """Return the hash of what decides the vectors of an endpoint, as far as rbench can see: 64 hex digits."""
    return content_key(endpoint.model_copy(update={"url": bare(endpoint.url)}))


def locate(spec: EncoderSpec) -> FingerprintedPlace:
    """Ask for the probe, and return the place of an encoder behind an endpoint. Its fingerprint is `hash_endpoint`.

    Raises:
        ResourceError: it cannot be asked, or its vectors of the probe are no longer those that are kept.
    """
    assert spec.endpoint is not None
    mark = partial(_check_and_hash, name=spec.name, endpoint=spec.endpoint)
    where = f"the endpoint of encoder {spec.name}"
    return FingerprintedPlace(where, mark(where), mark)


def _check_and_hash(where: str, *, name: str, endpoint: EmbeddingsEndpoint) -> str:
    try:
        server = open_server(name, endpoint)
        server.check()
    except ModelChangedError:
        raise
    except (JobError, AnswerError) as error:
        raise ResourceError(str(error)) from None
    return server.digits


def open_server(name: str, endpoint: EmbeddingsEndpoint) -> VectorServer:
    """Return what asks an endpoint: one object for all of this process, so that its limits hold for all."""
    endpoint_digits = hash_endpoint(endpoint)
    named[endpoint_digits] = name, endpoint
    server = _servers.get(endpoint_digits)
    if server is None or server.endpoint != endpoint:
        server = _servers[endpoint_digits] = VectorServer(name, endpoint)
    return server


def count_usage(endpoint: EmbeddingsEndpoint) -> Counter[str]:
    """Return what this process asked of an endpoint so far: `requests`, `texts`, and `tokens` as the server counts."""
    return Counter(_usage.get(hash_endpoint(endpoint), {}))


def probe_signature(endpoint: EmbeddingsEndpoint) -> tuple[float, ...]:
    """Return what tells the weights behind an endpoint from others: the lengths of the probe's vectors, then the
    cosines of all pairs of them, rounded to four decimals; empty where it was not asked yet."""
    root = default_cache()
    probe_vectors = _stored_probe(
        SafeFolder(root).read_json(root / "endpoints" / hash_endpoint(endpoint) / "about.json")
    )
    if probe_vectors is None:
        return ()
    lengths = np.linalg.norm(probe_vectors.astype(np.float64), axis=1)
    unit = probe_vectors / np.maximum(lengths, 1e-12)[:, None]
    cosines = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    return tuple(round(float(number), 4) for number in (*lengths, *cosines))


class EndpointAsker:
    """Asks an endpoint for vectors, request by request, and keeps none.

    Args:
        name: the encoder's, for messages.
        endpoint: where and how it is asked.

    Raises:
        ResourceError: an environment variable is not set.
    """

    KEPT: ClassVar[str] = "Nothing is kept"
    """What a message adds where the endpoint is not available: what became of the answers before."""

    def __init__(self, name: str, endpoint: EmbeddingsEndpoint) -> None:
        self.name, self.endpoint, self.digits = name, endpoint, hash_endpoint(endpoint)
        key = {} if endpoint.key is None else {"Authorization": f"Bearer ${{{endpoint.key}}}"}
        max_answer_bytes = max(1 << 24, endpoint.batch_size * BYTES_A_TEXT)
        self._poster = connect(endpoint, f"encoder `{name}`", key, max_answer_bytes)
        self._parallel = ParallelAsker(endpoint.concurrency)
        self._count = threading.Lock()
        self.dim: int | None = None

    def ask_singly(self, texts: Sequence[str]) -> list[Vectors | None]:
        """Return the vector of each text, each asked for in a request of its own; None where it is refused.

        Raises:
            JobError: it is not available, refuses every text, or its answers cannot be used.
        """
        return self._parallel(texts, self._ask_for_one)

    def _ask_for_one(self, text: str, stop: threading.Event) -> list[Vectors | None]:
        try:
            return [*self._request([text], stop)]
        except AnswerError:
            return [None]

    def _request(self, texts: Sequence[str], stop: threading.Event) -> list[Vectors]:
        """Return the vectors of the texts of one request.

        Raises:
            AnswerError: it refuses them, but not a harmless text.
            JobError: as `ask_singly`.
        """
        where, harmless = f"encoder `{self.name}`: {bare(self.endpoint.url)}", self._build_body(PROBE[:1])
        try:
            answer = self._poster.ask(self._build_body(texts), harmless, stop, who=where, kept=self.KEPT)
        except AnswerError as error:
            if not self._poster.answers(harmless):  # then it refuses any text
                raise JobError(f"{where}: {error}") from None
            raise AnswerError(f"{where}: {error}") from None
        self._add_usage(answer, len(texts))
        try:
            return self._read(answer, len(texts))
        except AnswerError as error:
            raise JobError(f"{where}: {error}. Is this the address of embeddings (`/v1/embeddings`)?") from None

    def _build_body(self, texts: Sequence[str]) -> dict[str, Any]:
        endpoint = self.endpoint
        more = {} if endpoint.dimensions is None else {"dimensions": endpoint.dimensions}
        return {"model": endpoint.model, "input": list(texts), "encoding_format": endpoint.encoding, **more}

    def _add_usage(self, answer: Any, texts: int) -> None:
        stated = answer.get("usage") if isinstance(answer, Mapping) else None
        tokens = stated.get("total_tokens", stated.get("prompt_tokens")) if isinstance(stated, Mapping) else None
        with self._count:
            counts = _usage.setdefault(self.digits, Counter())
            counts.update(requests=1, texts=texts)
            if type(tokens) is int and 0 <= tokens < 1 << 40:
                counts["tokens"] += tokens

    def _read(self, answer: Any, count: int) -> list[Vectors]:
        """Return the vectors of an answer in the order of the texts. Raises AnswerError where they are not one each."""
        data = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(data, list) or len(data) != count or not all(isinstance(entry, Mapping) for entry in data):
            described = f"a list of {len(data)}" if isinstance(data, list) else "no list"
            raise AnswerError(
                f"it answered {described} as `data` to {count} texts, not a mapping with the vector of each"
            )
        places = [entry.get("index", i) for i, entry in enumerate(data)]
        if sorted(place for place in places if type(place) is int) != list(range(count)):
            raise AnswerError(f"its answer to {count} texts does not number them from 0 in `index`")
        rows: list[Any] = [None] * count
        for place, entry in zip(places, data, strict=True):
            rows[place] = _parse_vector(entry.get("embedding"))
        wanted = self.dim or self.endpoint.dimensions or len(rows[0])
        for row in rows:
            if len(row) != wanted:
                raise AnswerError(f"it answered a vector of {len(row)} numbers, where {wanted} are expected")
        return rows


class VectorServer(EndpointAsker):
    """Asks an endpoint for vectors, and keeps them.

    Args:
        name: the encoder's, for messages.
        endpoint: where and how it is asked.

    Raises:
        ResourceError: an environment variable is not set, or the cache cannot be written.
        JobError: it is not there, or its answer to the probe cannot be used.
    """

    KEPT = "Vectors that were answered are kept"

    def __init__(self, name: str, endpoint: EmbeddingsEndpoint) -> None:
        super().__init__(name, endpoint)
        self._canaries = CanaryTexts(len(PROBE), endpoint.batch_size)
        root = default_cache()
        self._below, self._folder = SafeFolder(root), root / "endpoints" / self.digits
        with writable_cache(root):
            self.probed = self._first_probe()
            self.dim = self.probed.shape[1]
            self._cached = CachedVectors(self._below, self._folder, self.dim)

    def check(self) -> None:
        """Ask for the probe again. Raises ModelChangedError where a vector is no longer the one that is kept."""
        self._compare(range(len(PROBE)), self._asked(PROBE, threading.Event(), alone=True))

    def _compare(self, places: Iterable[int], now: Sequence[Vectors]) -> None:
        """Raise ModelChangedError where vectors of the probe's texts at some places are not those that are kept."""
        worst = max(_measure_gaps(self.probed[list(places)], np.stack(now)))
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
        keys = list(map(hash_text, texts))
        by_key = self._cached.get(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in by_key}
        if progress is not None and len(new) < len(texts):
            progress(len(texts) - len(new))
        missing, texts_a_request = [*new], self._canaries.room
        # A round ends before the next begins, so that an interruption loses the answers of one round at most.
        step = texts_a_request * self.endpoint.concurrency * REQUESTS_A_CONNECTION
        for start in range(0, len(missing), step):
            chunk_keys = missing[start : start + step]
            requests = [
                [new[key] for key in chunk_keys[i : i + texts_a_request]]
                for i in range(0, len(chunk_keys), texts_a_request)
            ]
            with writable_cache(self._below.root):
                answered = dict(zip(chunk_keys, self._parallel(requests, self._ask_and_keep), strict=True))
                # Vectors are kept only behind a right answer to the probe. Where no text of it fits beside others, one
                # request of its own after the round decides whether the round is kept.
                if not self._canaries.fit:
                    self._asked((), threading.Event())
                    self._cached.put(answered)
            by_key |= answered
            if progress is not None:
                progress(len(chunk_keys))
        return np.array([by_key[key] for key in keys], np.float32).reshape(len(texts), self.dim)

    def _ask_and_keep(self, texts: Sequence[str], stop: threading.Event) -> list[Vectors]:
        answered = self._asked(texts, stop)
        if self._canaries.fit:
            self._cached.put(dict(zip(map(hash_text, texts), answered, strict=True)))
        return answered

    def _asked(self, texts: Sequence[str], stop: threading.Event, alone: bool = False) -> list[Vectors]:
        """Return the vectors of the texts of one request. Where it is refused, ask for each half, to find the text.

        One of the probe's texts goes with them, unless they are `alone`, or the only one that fits.
        """
        probe_place = None if alone or (texts and not self._canaries.fit) else self._canaries.next()
        sent = texts if probe_place is None else [*texts, PROBE[probe_place]]
        try:
            rows = self._request(sent, stop)
        except AnswerError as refusal:
            failed = refusal
        else:
            if probe_place is not None:
                self._compare([probe_place], [rows.pop()])
            return rows
        if len(texts) < 2:
            raise AnswerError(f"{failed}; asked for {(texts or sent)[0][:200]!r}")
        half = len(texts) // 2
        return [*self._asked(texts[:half], stop, alone), *self._asked(texts[half:], stop, alone)]

    def _first_probe(self) -> Vectors:
        """Return the probe's vectors as they were when the endpoint was first asked, here or by another process."""
        about = self._folder / "about.json"
        if (known := _stored_probe(self._below.read_json(about))) is None:
            answered = np.stack(self._asked(PROBE, threading.Event(), alone=True))
            fields = {**json.loads(self.endpoint.model_dump_json(include={"model", "dimensions", "version"}))}
            fields |= {"url": bare(self.endpoint.url), "dim": answered.shape[1]}
            fields["probe"] = base64.b64encode(answered.astype("<f4").tobytes()).decode()
            content = json.dumps(fields, indent=2).encode()
            if not self._below.make(about, content):
                # Another process was first. Its probe counts, so that all processes compare with the same vectors.
                known = _stored_probe(self._below.read_json(about))
                if known is None:  # it is damaged, and so is what lies beside it
                    self._below.replace(about, content)
            return answered if known is None else known
        return known


def _parse_vector(value: Any) -> Vectors:
    """Return a vector (dim,) that a server gave: a list of numbers, or the base64 of float32, little-endian."""
    try:
        with np.errstate(over="ignore"):
            numbers = np.frombuffer(base64.b64decode(value, validate=True), "<f4") if isinstance(value, str) else value
            if not isinstance(numbers, np.ndarray) and not all(type(number) in (int, float) for number in numbers):
                raise TypeError
            row = np.array(numbers, np.float64).astype(np.float32)
    except (ValueError, TypeError, OverflowError):
        raise AnswerError("a vector is neither a list of numbers nor the base64 of 32-bit ones") from None
    if not 0 < len(row) <= LONGEST_VECTOR or not np.isfinite(row).all():
        raise AnswerError(f"a vector has {len(row):,} numbers; 1 to {LONGEST_VECTOR:,} are read, all of them finite")
    return row


def _stored_probe(about: Mapping[str, Any] | None) -> Vectors | None:
    """Return the probe's vectors (texts, dim) that an about.json holds; None where it holds none."""
    with suppress(TypeError, KeyError, ValueError):
        if about is not None:
            probe = np.frombuffer(base64.b64decode(about["probe"], validate=True), "<f4").reshape(len(PROBE), -1)
            if probe.size and np.isfinite(probe).all():
                return probe.astype(np.float32)
    return None


def _measure_gaps(before: Vectors, now: Vectors) -> Iterator[float]:
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
