"""What a victim answers now to the texts of an attack's log, and how sure that is.

A victim behind a function or an endpoint is asked twice. Its margin for a text is the log-odds of the true label
against the strongest other one. Where answers vary, a margin decides only where it is further from 0 than
`SEARCH_ERRORS` standard deviations of one answer. That is far, because a search asks hundreds of times, and logs the
text that was answered wrong once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rbench.config.attack_log import AttackLog, LoggedAttack
from rbench.score.health import LabelExchange, find_label_exchange

Text = tuple[str, ...]
AnswersByText = Mapping[Text, NDArray[np.float64]]
"""By text the probabilities of the labels, (times asked, labels). Texts without a usable answer are missing."""
NEAR_TIE = 0.01
"""Log-odds that decide nothing even of a steady victim: padding and rounding of another program turn such answers."""
SEARCH_ERRORS = 5.0
LEAST_PROBABILITY = 1e-9


@dataclass(frozen=True)
class ReplayedAttack:
    """One line of the log, and the victim's answers to its texts now, (times asked, labels)."""

    logged: LoggedAttack
    label: int
    before: NDArray[np.float64] | None
    after: NDArray[np.float64] | None


@dataclass(frozen=True)
class Replay:
    """A log with the victim's answers.

    The log says of each text that was attacked that the victim got it right. Where that holds far more often if the
    victim's labels change places, answers are read so.
    """

    log: AttackLog
    names: tuple[str, ...]
    """The victim's labels, in the order of its outputs."""
    attacks: tuple[ReplayedAttack, ...] = field(repr=False)
    exchange: LabelExchange | None = None

    @classmethod
    def of(cls, log: AttackLog, names: Sequence[str], labels: Sequence[int], answers: AnswersByText) -> Replay:
        """Join the lines of a log, their labels as numbers, and the answers. Lines that errored are left out."""
        attacks = [
            ReplayedAttack(
                logged,
                label,
                answers.get(logged.texts_before),
                None if logged.texts_after is None else answers.get(logged.texts_after),
            )
            for logged, label in zip(log.attacks, labels, strict=True)
            if logged.status != "errored"
        ]
        exchange = find_exchange([one for one in attacks if one.logged.status != "skipped"], len(names))
        if exchange is not None:
            order = np.argsort(exchange.meanings)
            attacks = [
                ReplayedAttack(
                    one.logged, one.label, *(None if a is None else a[:, order] for a in (one.before, one.after))
                )
                for one in attacks
            ]
        return cls(log, tuple(names), tuple(attacks), exchange)

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the log-odds of one answer to the same text."""
        pairs = [
            margins(answer, one.label)
            for one in self.attacks
            for answer in (one.before, one.after)
            if answer is not None and len(answer) > 1
        ]
        return float(np.mean([np.var(pair, ddof=1) for pair in pairs])) ** 0.5 if pairs else 0.0

    @property
    def slack(self) -> float:
        """Log-odds within which an answer decides nothing."""
        return max(NEAR_TIE, SEARCH_ERRORS * self.spread)

    def is_right(self, answer: NDArray[np.float64] | None, label: int) -> bool | None:
        """Return whether the victim gives the label; None where nothing decides it."""
        if answer is None:
            return None
        odds = margins(answer, label)
        if odds.min() > self.slack:
            return True
        return False if odds.max() < -self.slack else None

    def with_status(self, *statuses: str) -> list[ReplayedAttack]:
        """Return the lines that the log gives one of these results."""
        return [one for one in self.attacks if one.logged.status in statuses]


def find_exchange(attacks: Sequence[ReplayedAttack], count: int) -> LabelExchange | None:
    """Return the assignment of labels by which the victim gets far more originals right; None where there is none."""
    answered = [(int(one.before.mean(axis=0).argmax()), one.label) for one in attacks if one.before is not None]
    return find_label_exchange([answer for answer, _ in answered], [label for _, label in answered], count)


def margins(answer: NDArray[np.float64], label: int) -> NDArray[np.float64]:
    """Return the log-odds (times asked,) of a label against the strongest other one."""
    logs = np.log(np.maximum(answer, LEAST_PROBABILITY))
    odds: NDArray[np.float64] = logs[:, label] - np.delete(logs, label, axis=1).max(axis=1)
    return odds


def fold(text: Text) -> Text:
    """Return a text without what no reader takes for a change: case, and the length of spaces."""
    return tuple(" ".join(column.split()).casefold() for column in text)
