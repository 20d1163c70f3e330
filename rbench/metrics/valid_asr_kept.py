"""Valid ASR, meaning kept: the attacked texts that fell to a text with their label and their meaning, as people say.

A rater accepts a success who sees the label in the changed text, and gives 4 or 5 of 5 to the pair of both. This is the
lower end of the bracket of `valid_asr`. Ours: no paper behind rbench reports it.
"""

from __future__ import annotations

from rbench.metrics import Meaning, Observations, Values, accepted, added
from rbench.metrics.valid_asr import ValidAsr


class ValidAsrKept(ValidAsr):
    about = Meaning(
        "Valid attack success rate, meaning kept",
        "ASR x share of raters who see the label and find the meaning kept (4 or 5 of 5), mean over the judged "
        "successes",
        "lowest",
        short="Valid ASR, kept",
        undefined="not judged (rbench judge)",
    )
    place = 13

    def value(self, of: Observations) -> float:
        """ASR times the share of judged successes whose label is seen and whose meaning is kept."""
        return accepted(of, of.kept)

    def influence(self, of: Observations) -> Values:
        """What each text adds to the value, without the jackknife."""
        return added(of, of.kept)

    def judged(self, of: Observations) -> Values:
        """The share of raters who accept a success; NaN where nobody was asked."""
        return of.kept
