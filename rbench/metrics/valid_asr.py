"""Valid ASR: the share of the attacked texts that fell to a text in which people still see the label.

It is ASR times the share of successes that raters accept, each text by the share of its raters. `valid_asr_kept` also
asks that the meaning is kept, so that both are the ends of a bracket. Ours: no paper behind rbench reports it.
"""

from __future__ import annotations

from rbench.metrics import Meaning, Observations, Truths, Values, accepted, added

ABOUT = Meaning(
    "Valid attack success rate",
    "ASR x share of raters who see the label in the text that it fell to, mean over the judged successes",
    "lowest",
    short="Valid ASR",
    undefined="not judged (rbench judge)",
)
OF = "attacks"
SHARE = False
BOUNDS = (0.0, 1.0)
PART_OF = "asr"
COUNTS = "the examples that both victims classify correctly"
PLACE = 12


def units(of: Observations) -> Truths:
    """The texts that were attacked."""
    return of.attacked


def value(of: Observations) -> float:
    """ASR times the share of judged successes whose label is still seen."""
    return accepted(of, of.seen)


def influence(of: Observations) -> Values:
    """What each text adds to the value, without the jackknife."""
    return added(of, of.seen)


def judged(of: Observations) -> Values:
    """The share of raters who accept a success; NaN where nobody was asked."""
    return of.seen
