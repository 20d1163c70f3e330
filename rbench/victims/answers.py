"""Asks a function or an endpoint: texts in, probabilities out; and asks some texts twice, to see that it is steady.

One text in EVERY is asked again, one of the probe goes with each request of several texts
(`rbench.system.asking.CanaryTexts`), and the whole probe is asked after a pause, and when a job begins and ends.

rbench sees no weights behind it. In a job's key stands what the user says of it, and a fingerprint: the answers to the
probe, fixed texts of ours that tell one classifier from another. Many of them are mixed or odd, because classifiers
agree on clear ones. To change them changes the keys of all such jobs.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rbench.errors import AnswerError, JobError, ModelChangedError, ResourceError
from rbench.masking import masked
from rbench.schema.victims import Origin, VictimSpec
from rbench.system.asking import CanaryTexts
from rbench.victims.scores import Row

Text = tuple[str, ...]

AskFunction = Callable[[Sequence[Text]], list[Row | AnswerError]]

ASK_AGAIN_EVERY = 50
"""One text in as many is asked again."""
PAUSE_BEFORE_PROBE = 60.0
"""Seconds without a question after which the probe is asked again."""
MAX_KEPT = 256
"""Texts whose answers are kept to be compared."""
DIGITS = 2
"""Decimals of probabilities in the fingerprint, so that another machine's last bits do not change it."""

_SENTENCES = (
    "The story is warm and the actors carry it, although the last half hour drags.",
    "Nothing here works: the jokes are stale and the sound is worse.",
    "I expected little and got a little more.",
    "The bank raised its rates again, and the shares fell within the hour.",
    "Two goals in the last minute turned the match.",
    "How many moons does the largest planet have?",
    "A new chip reads handwriting faster than people do.",
    "The soup was not bad, but I would not order it twice.",
    "Ministers met in the capital and agreed on nothing.",
    "It is hard to say whether this is a joke or a mistake.",
    "Delivery took a month, and yet I would buy it again.",
    "She plays the villain with obvious joy.",
)


def probe_texts(columns: int) -> list[tuple[str, ...]]:
    """Return the probe's texts: each sentence, followed by the next ones for tasks with several columns."""
    n = len(_SENTENCES)
    return [tuple(_SENTENCES[(i + j) % n] for j in range(columns)) for i in range(n)]


class AnswerClient:
    """A classifier of which only the answers are known. Several threads may ask an endpoint at once.

    Args:
        spec: what the user says of it.
        labels: the labels of the task, in its order.
        columns: the number of texts of an example.
        ask: returns probabilities (labels,) in the task's order, or an error, for each text.
        pooled: how many examples should be attacked at once, so that it is kept busy.
        stop: ends what is under way, where answers are no longer wanted.
    """

    def __init__(
        self,
        spec: VictimSpec,
        labels: Sequence[str],
        columns: int,
        ask: AskFunction,
        pooled: int,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.spec, self.name, self.labels, self.columns = spec, spec.name, tuple(labels), columns
        self.origin: Origin = spec.origin
        self.pooled, self._ask, self.stop = pooled, ask, stop
        self._lock = threading.Lock()
        self._known: list[tuple[Text, Row]] = []
        self._probed: list[Row] = []
        self._first: Row | None = None
        """The first answer to the probe's first text, where the probe was not asked."""
        self._since, self._last = 0, time.monotonic()
        endpoint = spec.endpoint if spec.tolerance < 1 else None
        self._canaries = CanaryTexts(len(_SENTENCES), endpoint.batch_size if endpoint is not None else 1)
        self._random = random.Random(0)  # one of its own: the global one belongs to attacks

    def __call__(self, texts: Sequence[Text]) -> NDArray[np.float64]:
        """Return probabilities (n, labels) in the order of `labels`.

        Raises:
            JobError: it failed, a text has no usable answer, or it answered a text twice and not alike. The message
                names the victim, the text and the remedy.
        """
        return self._checked(self.each(texts))

    def each(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        """Return probabilities (labels,), or the error that concerns this text alone, for each text.

        One text in EVERY, of those that were answered before, is asked again with them.

        Raises:
            JobError: it failed as a whole.
            ModelChangedError: it answered a text twice and not alike.
        """
        asked_texts = list(texts)
        with self._lock:
            paused, self._last = time.monotonic() - self._last > PAUSE_BEFORE_PROBE, time.monotonic()
        if paused and self.spec.tolerance < 1 and self._probed:
            self.check()
        with self._lock:
            self._since += len(asked_texts)
            count = min(self._since // ASK_AGAIN_EVERY, len(self._known)) if self.spec.tolerance < 1 else 0
            self._since -= count * ASK_AGAIN_EVERY
            repeated = self._random.sample(self._known, count)
        # Together with the new texts, so that what is compared comes from the model that answers these.
        rows = self._ask_with_canaries([*asked_texts, *(text for text, _ in repeated)])
        for (text, first), second in zip(repeated, rows[len(asked_texts) :], strict=True):
            self._compare(text, first, second)
        with self._lock:
            for text, row in zip(asked_texts, rows, strict=False):
                self._keep(text, row)
        return rows[: len(asked_texts)]

    def _ask_with_canaries(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        """Ask, with one of the probe's texts in each request of several, whose answer must be that of the first time.

        Nothing is returned of answers beside one that is not.
        """
        if not self._canaries.fit:
            return self._named(texts)
        probe, texts_a_request = probe_texts(self.columns), self._canaries.room
        parts = [list(texts[start : start + texts_a_request]) for start in range(0, len(texts), texts_a_request)]
        # Before the whole probe was asked, no answer but that to its first text becomes known.
        probe_numbers = [self._canaries.next() if self._probed else 0 for _ in parts]
        sent = [text for part, turn in zip(parts, probe_numbers, strict=True) for text in (*part, probe[turn])]
        rows, answered = iter(self._named(sent)), []
        for part, turn in zip(parts, probe_numbers, strict=True):
            answered += [next(rows) for _ in part]
            now = next(rows)
            if not isinstance(now, AnswerError):
                with self._lock:
                    self._first = now if self._first is None else self._first
                    before = self._probed[turn] if self._probed else self._first
                self._compare(probe[turn], before, now)
        return answered

    def check(self) -> NDArray[np.float64]:
        """Ask the probe's texts one by one, and all again in the opposite order. Return the probabilities (n, labels).

        Asked one by one, a server's answers do not depend on what it computes beside them. They must be alike, and like
        those of an earlier check: a model that was exchanged since is noticed, however few texts were asked.

        Raises:
            ResourceError: it failed, or an answer cannot be used.
            ModelChangedError: the answers to a text differ.
        """
        probe = probe_texts(self.columns)
        try:
            first = np.concatenate([self._checked(self._named([text])) for text in probe])
            for earlier in (self._probed or first, self._checked(self._named(probe[::-1]))[::-1]):
                for text, before, now in zip(probe, earlier, first, strict=True):
                    self._compare(text, before, now)
        except ModelChangedError:
            raise
        except JobError as error:
            raise ResourceError(str(error)) from error.__cause__
        for text, row in zip(probe, first, strict=True) if not self._probed else ():
            self._keep(text, row)
        # The first check stays the reference, so that many small drifts within the tolerance are noticed, too.
        self._probed = self._probed or list(first)
        return first

    def fingerprint(self) -> str:
        """Ask the probe's texts, and return a hash of the rounded probabilities. Raises ResourceError as `check`."""
        rounded = np.rint(self.check() * 10**DIGITS).astype(int).tolist()
        return hashlib.sha256(json.dumps(rounded).encode()).hexdigest()

    def _checked(self, rows: Sequence[Row | AnswerError]) -> NDArray[np.float64]:
        """Return rows as one array (n, labels). Raises JobError where one of them is an error."""
        for row in rows:
            if isinstance(row, AnswerError):
                raise JobError(str(row)) from row.__cause__
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.labels))

    def _named(self, texts: Sequence[Text]) -> list[Row | AnswerError]:
        """Ask, and let each error name the victim and its text."""
        rows = self._ask(texts) if texts else []
        for i, (text, row) in enumerate(zip(texts, rows, strict=True)):
            if isinstance(row, AnswerError):
                # A server may send lone surrogates, which no file can hold.
                message = masked(str(row).encode("utf-8", "backslashreplace").decode())
                named_error = AnswerError(
                    f"victim {self.name}, asked for {quote_text(text)}: {' '.join(message.split())}"
                )
                named_error.__cause__ = row.__cause__
                rows[i] = named_error
        return rows

    def _keep(self, text: Text, row: Row | AnswerError) -> None:
        """Keep an answer, in place of any other once there are KEPT."""
        if isinstance(row, AnswerError):
            return
        if len(self._known) < MAX_KEPT:
            self._known.append((text, row))
        elif self._random.random() < 1 / ASK_AGAIN_EVERY:
            self._known[self._random.randrange(MAX_KEPT)] = (text, row)

    def _compare(self, text: Text, before: Row, now: Row | AnswerError) -> None:
        if isinstance(now, AnswerError):
            return  # the same text may fail later; examples that ask for it are recorded as errored
        gaps = np.abs(now - before)
        worst = int(gaps.argmax())
        if gaps[worst] > self.spec.tolerance:
            raise ModelChangedError(
                f"victim {self.name} answered {quote_text(text)} twice and not alike: the probability of "
                f"{self.labels[worst]} was {before[worst]:.6g} and then {now[worst]:.6g}. If something in it is drawn "
                "at random, switch that off (`model.eval()`). If another model was put behind it, give it another "
                "`version` and run again; if several servers stand behind it, make them alike. If its rounding depends "
                f"on what it computes at once, write a larger `tolerance` (now {self.spec.tolerance:g})."
            )


def quote_text(text: Text) -> str:
    """Return a text for a message."""
    joined = " | ".join(text)
    return repr(joined if len(joined) <= 200 else joined[:200] + "...")
