"""The checks of an attack's log, one function each, in the order of the page.

Each takes a `Replay` and returns an `AuditCheck`: `ok`, `fault`, or `not checkable` with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from rbench.audit.replay import LEAST_PROBABILITY, SEARCH_ERRORS, Replay, ReplayedAttack, find_exchange, fold
from rbench.config.attack_log import MarkedColumn
from rbench.schema import Strict
from rbench.score.paired import mcnemar
from rbench.score.statistics import Proportion
from rbench.system.changes import count_changed_words
from rbench.tables.table import format_p_value
from rbench.words.substitution.segmentation import find_words, words_of

Verdict = Literal["ok", "fault", "not checkable"]
SIGNIFICANT, PERMUTATIONS = 0.05, 2000
SCORE_TOLERANCE = 0.02
"""Difference of two probabilities that half precision and other versions explain."""


class LineFinding(Strict):
    """A line of the log, and what is wrong with it."""

    where: str
    because: str


class AuditCheck(Strict):
    """What one check found."""

    name: str
    verdict: Verdict
    summary: str
    """One sentence with the counts; of what is not checkable, the reason."""
    lines: tuple[LineFinding, ...] = ()
    """The lines at fault, in the order of the log."""


def _judge(name: str, summary: str, lines: Iterable[LineFinding]) -> AuditCheck:
    """Return a fault where any line is at fault, else ok."""
    at_fault = tuple(lines)
    return AuditCheck(name=name, verdict="fault" if at_fault else "ok", summary=summary, lines=at_fault)


def _not_checkable(name: str, reason: str) -> AuditCheck:
    return AuditCheck(name=name, verdict="not checkable", summary=reason)


def _says(replay: Replay, one: ReplayedAttack, answer: Literal["before", "after"]) -> str:
    """Return what the victim says of a text, and how surely."""
    rows = getattr(one, answer)
    mean = rows.mean(axis=0)
    return (
        f"the victim says {replay.names[int(mean.argmax())]} ({mean.max():.3f}), the label is {replay.names[one.label]}"
    )


def check_successes(replay: Replay) -> AuditCheck:
    """Does each text that the log calls a success fool the victim now?"""
    return _check_outcomes(replay, "successes", "succeeded", "fool the victim now", right_is_fault=True)


def check_failures(replay: Replay) -> AuditCheck:
    """Does the victim hold on each text that the log calls a failure?"""
    return _check_outcomes(replay, "failures", "failed", "do not fool it now", right_is_fault=False)


def _check_outcomes(replay: Replay, name: str, status: str, holds: str, *, right_is_fault: bool) -> AuditCheck:
    lines = [one for one in replay.with_status(status) if one.logged.perturbed is not None]
    if not lines:
        return _not_checkable(name, f"the log has no text that {status}")
    verdicts = [replay.is_right(one.after, one.label) for one in lines]
    undecided = verdicts.count(None)
    if undecided == len(lines):
        return _not_checkable(name, f"the victim's answers to all {len(lines)} vary, are ties, or are missing")
    wrong = [one for one, right in zip(lines, verdicts, strict=True) if right is right_is_fault]
    summary = f"{len(lines) - undecided - len(wrong)} of {len(lines)} {holds}"
    summary += f"; {undecided} are undecided, because answers vary, are ties, or are missing" if undecided else ""
    return _judge(
        name, summary, [LineFinding(where=one.logged.where, because=_says(replay, one, "after")) for one in wrong]
    )


def check_skipped(replay: Replay) -> AuditCheck:
    """Are exactly those texts left out of the rate that the victim gets wrong before any change?"""
    if all(one.before is None for one in replay.attacks):
        return _not_checkable("skipped", "the victim has no usable answer to any original")
    counted = [
        one for one in replay.with_status("succeeded", "failed") if replay.is_right(one.before, one.label) is False
    ]
    left_out = [one for one in replay.with_status("skipped") if replay.is_right(one.before, one.label) is True]
    summary = (
        f"{len(counted)} texts count in the rate and are wrong before any change, so that they should be skipped; "
        f"{len(left_out)} of {len(replay.with_status('skipped'))} skipped ones are right, so that they should count"
    )
    at_fault = {id(one): "counted, and wrong as it is" for one in counted}
    at_fault |= {id(one): "skipped, and right" for one in left_out}
    return _judge(
        "skipped",
        summary,
        [
            LineFinding(where=one.logged.where, because=f"{at_fault[id(one)]}: {_says(replay, one, 'before')}")
            for one in replay.attacks
            if id(one) in at_fault
        ],
    )


def check_stated_rate(replay: Replay, stated: float | None) -> AuditCheck:
    """Is the rate that is stated elsewhere, in percent, that of the log: successes over attacked texts?"""
    name = "stated rate"
    if stated is None:
        return _not_checkable(name, "no rate was given (--stated-rate PERCENT)")
    succeeded, failed, skipped = (len(replay.with_status(status)) for status in ("succeeded", "failed", "skipped"))
    total, tolerance = succeeded + failed + skipped, 0.5 if stated == round(stated) else 0.05
    rates = {
        f"successes over attacked texts ({succeeded} of {succeeded + failed})": (succeeded, succeeded + failed),
        f"successes over all texts, skipped ones among them ({succeeded} of {total})": (succeeded, total),
        f"skipped ones counted as successes ({succeeded + skipped} of {total})": (succeeded + skipped, total),
    }
    fitting = [what for what, (count, n) in rates.items() if n and abs(100 * count / n - stated) <= tolerance + 1e-9]
    own = Proportion(succeeded, succeeded + failed).mean
    summary = f"{stated:g}% is {fitting[0]}" if fitting else f"{stated:g}% is no rate of this log"
    if fitting[:1] != [next(iter(rates))]:
        shown = "undefined" if own is None else f"{100 * own:.1f}%"
        return AuditCheck(name=name, verdict="fault", summary=f"{summary}; successes over attacked texts are {shown}")
    return AuditCheck(name=name, verdict="ok", summary=summary)


def check_labels(replay: Replay) -> AuditCheck:
    """Are labels exchanged: in the log, or already during the attack, so that right answers counted as wrong?"""
    exchange, where = replay.exchange, "attacked originals"
    if exchange is None:
        exchange, where = find_exchange(replay.attacks, len(replay.names)), "originals"
    if exchange is None:
        return AuditCheck(name="labels", verdict="ok", summary="no other reading of the labels fits better")
    moved = ", ".join(f"{replay.names[i]} for {replay.names[j]}" for i, j in enumerate(exchange.meanings) if i != j)
    so = "the other checks read them so" if replay.exchange is not None else "they were exchanged during the attack"
    return AuditCheck(
        name="labels",
        verdict="fault",
        summary=f"the victim is right on {100 * exchange.right:.1f}% of the {where}, and on "
        f"{100 * exchange.right_exchanged:.1f}% if its answers are read so: {moved}; {so}",
    )


def check_duplicates(replay: Replay) -> AuditCheck:
    """Is an original there twice, but for case and spaces?"""
    first: dict[tuple[str, ...], ReplayedAttack] = {}
    lines = []
    for one in replay.attacks:
        other = first.setdefault(fold(one.logged.texts_before), one)
        if other is not one:
            label = "" if other.label == one.label else ", with another label"
            lines.append(LineFinding(where=one.logged.where, because=f"the same text as {other.logged.where}{label}"))
    return _judge("duplicates", f"{len(lines)} of {len(replay.attacks)} originals are there before", lines)


def check_empty_changes(replay: Replay) -> AuditCheck:
    """Does a success differ from its original in nothing, or in case and spaces alone?"""
    successes = replay.with_status("succeeded")
    lines = []
    for one in successes:
        after = one.logged.texts_after
        if after is None:
            lines.append(LineFinding(where=one.logged.where, because="no perturbed text"))
        elif after == one.logged.texts_before:
            lines.append(LineFinding(where=one.logged.where, because="the perturbed text is the original"))
        elif fold(after) == fold(one.logged.texts_before):
            lines.append(LineFinding(where=one.logged.where, because="only case or spaces changed"))
    if not successes:
        return _not_checkable("empty changes", "the log has no text that succeeded")
    return _judge("empty changes", f"{len(lines)} of {len(successes)} successes changed no word", lines)


def check_premises(replay: Replay) -> AuditCheck:
    """Does the premise of a pair stay as it is? Of another premise, the label may be another."""
    if replay.log.columns != ("premise", "hypothesis"):
        return _not_checkable("premises", "the texts are no pairs of a premise and a hypothesis")
    attacked = [one for one in replay.with_status("succeeded", "failed") if one.logged.texts_after is not None]
    lines = [
        LineFinding(where=one.logged.where, because="the premise changed")
        for one in attacked
        if one.logged.texts_after and one.logged.texts_after[0] != one.logged.texts_before[0]
    ]
    return _judge("premises", f"{len(lines)} of {len(attacked)} attacked pairs have another premise", lines)


def check_words(replay: Replay) -> AuditCheck:
    """Did no other words change than those that the log marks, and no more than its column `words_changed` says?"""
    name = "words changed"
    attacked = [one for one in replay.with_status("succeeded", "failed") if one.logged.perturbed is not None]
    compared = [one for one in attacked if replay.log.marked or one.logged.words_changed is not None]
    if not compared:
        return _not_checkable(name, "the log neither marks changed words nor counts them")
    lines, ours, theirs = [], 0, 0.0
    for one in compared:
        logged, count = one.logged, count_words(one)
        stated = float(_marked_words(logged.original)) if logged.words_changed is None else logged.words_changed
        ours, theirs = ours + count, theirs + stated
        if logged.words_changed is not None and stated < count:
            lines.append(LineFinding(where=logged.where, because=f"{count} words changed, the log says {stated:g}"))
        elif replay.log.marked and _unmarked_words(logged.original) != _unmarked_words(logged.perturbed or ()):
            lines.append(LineFinding(where=logged.where, because="words changed that the log does not mark"))
    summary = (
        f"{ours / len(compared):.2f} words a text by our count, {theirs / len(compared):.2f} by the log's, over "
        f"{len(compared)} attacked texts; on {len(lines)} more changed than the log says"
    )
    return _judge(name, summary, lines)


def count_words(one: ReplayedAttack) -> int:
    """Return the fewest words of the original that were replaced: of TextAttack's, or by spaces if those are fewer."""
    before, after = one.logged.texts_before, one.logged.texts_after or ()
    if len(before) != len(after):  # a text that was cut has lost a column
        before, after = ("\n".join(before),), ("\n".join(after),)
    by_spaces = count_changed_words([text.split() for text in before], [text.split() for text in after])
    return min(count_changed_words(words_of(before), words_of(after)), by_spaces)


def _is_marked(column: MarkedColumn, start: int, end: int) -> bool:
    return any(first < end and start < last for first, last in column.marks)


def _marked_words(columns: Sequence[MarkedColumn]) -> int:
    return sum(_is_marked(column, start, end) for column in columns for _, start, end in find_words([column.text]))


def _unmarked_words(columns: Sequence[MarkedColumn]) -> list[str]:
    return [
        column.text[start:end]
        for column in columns
        for _, start, end in find_words([column.text])
        if not _is_marked(column, start, end)
    ]


def check_scores(replay: Replay) -> AuditCheck:
    """Are the log's scores, 1 less the probability of the true label, those of this victim?"""
    name, lines, compared = "scores", [], 0
    slack = SEARCH_ERRORS * replay.spread * math.sqrt(1.5)  # of one answer less the mean of two
    for one in replay.attacks:
        logged = (one.logged.original_score, one.before), (one.logged.perturbed_score, one.after)
        gaps = [
            (score, 1 - float(answer[:, one.label].mean()))
            for score, answer in logged
            if score is not None and answer is not None
        ]
        compared += len(gaps)
        if gap := next((gap for gap in gaps if _differ(*gap, slack)), None):
            because = f"the log's score is {gap[0]:.3f}, and now it is {gap[1]:.3f}"
            lines.append(LineFinding(where=one.logged.where, because=because))
    if not compared:
        return _not_checkable(name, "the log has no scores")
    summary = f"on {len(lines)} of {len(replay.attacks)} lines a score differs"
    summary += ": the log is of other weights, or its attack has another goal" if lines else ""
    return _judge(name, summary, lines)


def _differ(score: float, now: float, slack: float) -> bool:
    """Whether two scores differ by more than precision, and their log-odds by more than answers vary."""
    odds, odds_now = (
        math.log(max(share, LEAST_PROBABILITY) / max(1 - share, LEAST_PROBABILITY)) for share in (score, now)
    )
    return abs(score - now) > SCORE_TOLERANCE and abs(odds - odds_now) > slack


def check_own_columns(replay: Replay) -> AuditCheck:
    """Do the log's outputs fit its results, whatever the victim says now?"""
    name = "own outputs"
    known = [
        one
        for one in replay.attacks
        if one.logged.original_output is not None and one.logged.perturbed_output is not None
    ]
    if not known:
        return _not_checkable(name, "the log has no outputs of the victim")
    lines = []
    for one in known:
        before, after, status = one.logged.original_output, one.logged.perturbed_output, one.logged.status
        right_before, right_after = before == one.label, after == one.label
        if right_before is (status == "skipped"):
            what = "right" if right_before else "wrong"
            lines.append(LineFinding(where=one.logged.where, because=f"{status}, and its original_output is {what}"))
        elif status != "skipped" and right_after is (status == "succeeded"):
            what = "right" if right_after else "wrong"
            lines.append(LineFinding(where=one.logged.where, because=f"{status}, and its perturbed_output is {what}"))
    return _judge(name, f"on {len(lines)} of {len(known)} lines the outputs contradict the result", lines)


def check_chance(replay: Replay) -> AuditCheck:
    """Have the victim's answers anything to do with the labels? That is a permutation test."""
    name = "near chance"
    answered = [(int(one.before.mean(axis=0).argmax()), one.label) for one in replay.attacks if one.before is not None]
    answers, labels = (np.array([pair[i] for pair in answered], dtype=np.int64) for i in (0, 1))
    if len(set(labels.tolist())) < 2:
        return _not_checkable(name, "the log has one label alone" if answered else "no original has a usable answer")
    right = int((answers == labels).sum())
    if right == len(answered) and not replay.with_status("skipped"):
        return _not_checkable(name, "the log has only texts that the victim gets right, which may have been chosen so")
    draw = np.random.default_rng(0)
    by_chance = [int((answers == draw.permutation(labels)).sum()) for _ in range(PERMUTATIONS)]
    p = (1 + sum(count >= right for count in by_chance)) / (1 + PERMUTATIONS)
    summary = (
        f"{right} of {len(answered)} originals are right; by chance it would be {np.mean(by_chance):.0f} "
        f"(p {format_p_value(p)})"
    )
    return AuditCheck(name=name, verdict="fault" if p >= SIGNIFICANT else "ok", summary=summary)


def check_search(replay: Replay, fell: Mapping[str, Mapping[str, bool]]) -> AuditCheck:
    """Did the log's attack find at least what changing one word finds, and what an ensemble of attacks finds?

    Args:
        fell: by search (`one word`, `ensemble`), whether each attacked original fell, by its place in the log.
    """
    name = "search"
    if not fell:
        return _not_checkable(name, "further attacks cost many questions (--search)")
    lines = [one for one in replay.with_status("succeeded", "failed") if one.logged.where in fell["one word"]]
    if not lines:
        return _not_checkable(name, "no attacked original is right now")
    own = np.array(
        [one.logged.status == "succeeded" and replay.is_right(one.after, one.label) is not True for one in lines]
    )
    found = {search: np.array([by_line[one.logged.where] for one in lines]) for search, by_line in fell.items()}
    counts = ", ".join(f"{search} {int(hits.sum())}" for search, hits in found.items())
    missed = [one for one, hit, ours in zip(lines, own, found["one word"], strict=True) if ours and not hit]
    summary = (
        f"of {len(lines)} attacked texts the log's attack fools the victim on {int(own.sum())}; {counts}; one word is "
        f"enough on {len(missed)} that the log's attack missed"
    )
    weaker = len(missed), int((own & ~found["one word"]).sum())
    if weaker[0] <= weaker[1] or mcnemar(*weaker) >= SIGNIFICANT:
        return AuditCheck(name=name, verdict="ok", summary=summary)
    because = "failed, and one word is enough"
    return _judge(name, summary, [LineFinding(where=one.logged.where, because=because) for one in missed])


def all_checks(
    replay: Replay, stated_rate: float | None = None, fell: Mapping[str, Mapping[str, bool]] | None = None
) -> tuple[AuditCheck, ...]:
    """Return the results of all checks, in the order of the page."""
    return (
        check_successes(replay),
        check_failures(replay),
        check_skipped(replay),
        check_stated_rate(replay, stated_rate),
        check_labels(replay),
        check_duplicates(replay),
        check_empty_changes(replay),
        check_premises(replay),
        check_words(replay),
        check_scores(replay),
        check_own_columns(replay),
        check_chance(replay),
        check_search(replay, fell or {}),
    )
