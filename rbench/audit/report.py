"""The audit of a log as one page: both rates, a verdict for each check, and the lines at fault."""

from __future__ import annotations

from rbench.audit.checks import AuditCheck, count_words
from rbench.audit.replay import Replay, fold
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
            *(line for check in self.checks if check.lines for line in _lines_at_fault(check)),
        ]
        return [*page, *(f"\n{note}" for note in self.notes)]


def _lines_at_fault(check: AuditCheck) -> list[str]:
    shown = [f"- {line.where}: {line.because}" for line in check.lines[:LINES_SHOWN]]
    left_out = len(check.lines) - len(shown)
    return ["", f"## {check.name}", "", *shown, *([f"- and {left_out} more"] if left_out else [])]


def _shown(score: Score) -> str:
    """Return a share in percent with its 95% interval and n."""
    if score.value is None:
        return "no text"
    interval = "" if score.low is None or score.high is None else f" [{100 * score.low:.1f}, {100 * score.high:.1f}]"
    return f"{100 * score.value:.1f}%{interval}, n {score.n}"


def make_report(replay: Replay, victim: str, checks: tuple[AuditCheck, ...], notes: tuple[str, ...]) -> AuditReport:
    """Return the page of an audit: its checks, with the rates computed again."""
    succeeded, failed = (len(replay.with_status(status)) for status in ("succeeded", "failed"))
    distinct = {fold(one.logged.texts_before): one for one in reversed(replay.attacks)}.values()
    judged = [(one, right) for one in distinct if (right := replay.is_right(one.before, one.label)) is not None]
    attacked = [one for one, right in judged if right and one.logged.status != "skipped"]
    decided = [(one, right) for one in attacked if (right := replay.is_right(one.after, one.label)) is not None]
    fell = sum(
        not right and fold(one.logged.texts_after or ()) != fold(one.logged.texts_before) for one, right in decided
    )
    shares = [
        count / num_words
        for one in replay.with_status("succeeded")
        if (count := count_words(one)) and (num_words := sum(map(len, words_of(one.logged.texts_before))))
    ]
    return AuditReport(
        log=str(replay.log.path),
        victim=victim,
        lines=len(replay.log.attacks),
        logged_rate=make_score("asr", Proportion(succeeded, succeeded + failed)),
        replayed_rate=make_score("asr", Proportion(fell, len(decided))),
        replayed_accuracy=make_score("clean", Proportion(sum(right for _, right in judged), len(judged))),
        words_changed=make_score("perturbed", Sample.of(shares)),
        checks=checks,
        notes=notes,
    )
