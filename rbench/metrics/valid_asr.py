"""Valid ASR: the share of the attacked texts that fell to a text in which people still see the label.

It is ASR times the share of successes that raters accept, each text by the share of its raters. `valid_asr_kept` also
asks that the meaning is kept, so that both are the ends of a bracket. Ours: no paper behind rbench reports it.
"""

from __future__ import annotations

from rbench.metrics import Meaning, Metric, Observations, Truths, Values, accepted, added


class ValidAsr(Metric):
    about = Meaning(
        "Valid attack success rate",
        "ASR x share of raters who see the label in the text that it fell to, mean over the judged successes",
        "lowest",
        short="Valid ASR",
        undefined="not judged (rbench judge)",
    )
    of = "attacks"
    share = False
    bounds = (0.0, 1.0)
    part_of = "asr"
    counts = "the examples that both victims classify correctly"
    place = 12

    def units(self, of: Observations) -> Truths:
        """The texts that were attacked."""
        return of.attacked

    def value(self, of: Observations) -> float:
        """ASR times the share of judged successes whose label is still seen."""
        return accepted(of, of.seen)

    def influence(self, of: Observations) -> Values:
        """What each text adds to the value, without the jackknife."""
        return added(of, of.seen)

    def judged(self, of: Observations) -> Values:
        """The share of raters who accept a success; NaN where nobody was asked."""
        return of.seen
