"""The audit of a log as one page: both rates, a verdict for each check, and the lines at fault."""

from __future__ import annotations

from rbench.audit.checks import AuditCheck, count_words
from rbench.audit.replay import Replay, ReplayedAttack, fold
from rbench.schema import Score, Strict
from rbench.score.statistics import Proportion, Sample, make_score
from rbench.words.substitution.segmentation import words_of

LINES_SHOWN = 10
"""Lines of each check on the page; the result in Python and as JSON has all."""


class AuditReport(Strict):
    """What an audit found."""

    log: str
    """The log, for people."""
    victim: str
    lines: int
    logged_rate: Score
    """The log's attack success rate, in 0..1: successes over successes and failures, with Wilson's interval."""
    replayed_rate: Score
    """The same from the victim's answers now: of the distinct originals that it gets right, the share whose changed
    text it gets wrong."""
    replayed_accuracy: Score
    """The share of the distinct originals that the victim gets right now."""
    words_changed: Score
    """Mean share of the words of a text that changed, by rbench's count, over successes that changed any."""
    checks: tuple[AuditCheck, ...]
    notes: tuple[str, ...] = ()

    @property
    def faults(self) -> tuple[AuditCheck, ...]:
        """The checks that found a fault."""
        return tuple(check for check in self.checks if check.verdict == "fault")

    def check(self, name: str) -> AuditCheck:
        """Return the result of a check by its name."""
        return next(check for check in self.checks if check.name == name)

    def rendered(self, fmt: str = "markdown") -> str:
        """Return the page as text: `markdown`, or `json` with all lines."""
        return self.model_dump_json(indent=1) if fmt == "json" else "\n".join(self._page())

    def __str__(self) -> str:
        return self.rendered()

    def _repr_markdown_(self) -> str:
        return self.rendered()

    def _page(self) -> list[str]:
        checkable = sum(check.verdict != "not checkable" for check in self.checks)
        faults = ", ".join(check.name for check in self.faults) or "none"
        page = [
            f"# Audit of {self.log}",
            "",
            f"{self.lines} lines, replayed on {self.victim}. Faults: {faults} ({checkable} of {len(self.checks)} "
            "checks could be made).",
            "",
            "| | the log | now |",
            "|:--|--:|--:|",
            f"| attack success rate | {_shown(self.logged_rate)} | {_shown(self.replayed_rate)} |",
            f"| accuracy before the attack | | {_shown(self.replayed_accuracy)} |",
            f"| words changed by a success | | {_shown(self.words_changed)} |",
            "",
            "| check | verdict | what was found |",
            "|:--|:--|:--|",
            *(f"| {check.name} | {check.verdict} | {check.summary} |" for check in self.checks),
        ]
        for check in self.checks:
            page += _lines_at_fault(check)
        return [*page, *(f"\n{note}" for note in self.notes)]


def _lines_at_fault(check: AuditCheck) -> list[str]:
    """Return the section of a check with the first of its lines at fault; nothing where there are none."""
    if not check.lines:
        return []
    section = ["", f"## {check.name}", ""]
    section += [f"- {line.where}: {line.because}" for line in check.lines[:LINES_SHOWN]]
    left_out = len(check.lines) - LINES_SHOWN
    if left_out > 0:
        section.append(f"- and {left_out} more")
    return section


def _shown(score: Score) -> str:
    """Return a share in percent with its 95% interval and n."""
    if score.value is None:
        return "no text"
    interval = "" if score.low is None or score.high is None else f" [{100 * score.low:.1f}, {100 * score.high:.1f}]"
    return f"{100 * score.value:.1f}%{interval}, n {score.n}"


def make_report(replay: Replay, victim: str, checks: tuple[AuditCheck, ...], notes: tuple[str, ...]) -> AuditReport:
    """Return the page of an audit: its checks, with the rates computed again."""
    succeeded, failed = (len(replay.with_status(status)) for status in ("succeeded", "failed"))
    # Of lines with the same original the first counts.
    distinct = {fold(one.logged.texts_before): one for one in reversed(replay.attacks)}.values()
    # None where the victim's answers decide nothing: such a line is in no denominator.
    right_before = [(one, replay.is_right(one.before, one.label)) for one in distinct]
    judged = [(one, is_right) for one, is_right in right_before if is_right is not None]
    attacked = [one for one, is_right in judged if is_right and one.logged.status != "skipped"]
    right_after = [(one, replay.is_right(one.after, one.label)) for one in attacked]
    decided = [(one, is_right) for one, is_right in right_after if is_right is not None]
    num_fell = sum(not is_right and _is_changed(one) for one, is_right in decided)
    return AuditReport(
        log=str(replay.log.path),
        victim=victim,
        lines=len(replay.log.attacks),
        logged_rate=make_score("asr", Proportion(succeeded, succeeded + failed)),
        replayed_rate=make_score("asr", Proportion(num_fell, len(decided))),
        replayed_accuracy=make_score("clean", Proportion(sum(is_right for _, is_right in judged), len(judged))),
        words_changed=make_score("perturbed", Sample.of(_shares_of_words(replay))),
        checks=checks,
        notes=notes,
    )


def _is_changed(attack: ReplayedAttack) -> bool:
    return fold(attack.logged.texts_after or ()) != fold(attack.logged.texts_before)


def _shares_of_words(replay: Replay) -> list[float]:
    """Return the share of words that each success changed, of those that changed any."""
    shares = []
    for attack in replay.with_status("succeeded"):
        num_changed = count_words(attack)
        num_words = sum(len(words) for words in words_of(attack.logged.texts_before))
        if num_changed and num_words:
            shares.append(num_changed / num_words)
    return shares
