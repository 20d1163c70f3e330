"""Oracle-valid attack success rate: the share of the attacked texts that fell to a text with their true label."""

from __future__ import annotations

import numpy as np

from rbench.metrics import Meaning, Metric, Observations, Proportion, Tally, Values


class OracleAsr(Metric):
    about = Meaning(
        "Oracle-valid attack success rate",
        "successes after which the true label still holds / (succeeded + failed)",
        "lowest",
        short="Oracle-valid ASR",
    )
    of = "attacks"
    share = True
    together = True
    oracle = True
    counts = "the examples that both victims classify correctly"
    place = 3

    def value(self, of: Observations) -> Values:
        """1 for a text that fell and kept its true label, else 0. A success that the oracle cannot read counts 0."""
        return np.where(of.attacked & of.has_oracle, of.valid, np.nan)

    def counted(self, of: Tally) -> Proportion:
        """Return the share by the counts of a record."""
        return of.oracle_asr
