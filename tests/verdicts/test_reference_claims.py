"""The committed verdicts are those that rbench gives on the committed RUNs."""

from __future__ import annotations

import pytest

from rbench import api
from tests import reference

CLAIMS = reference.REFERENCE / "claims"
EVERYDAY = ("adcl-gated-ag", "cline-table5-local", "robustness-search-distillation", "strength-encoders", "sts")
"""Small RUNs whose claims are judged on every push: attacks, an adversarial set, a search, complete attacks, STS."""


def test_each_run_has_claims() -> None:
    assert {file.stem for file in CLAIMS.glob("*.yaml")} == {*reference.NAMES}


@pytest.mark.parametrize(
    "run", [pytest.param(name, marks=() if name in EVERYDAY else pytest.mark.nightly) for name in reference.NAMES]
)
def test_verdicts_are_as_committed(run: str) -> None:
    found = api.claims_table(api.claims(reference.run(run), CLAIMS / f"{run}.yaml", ()), "markdown")
    assert found.rstrip("\n") == reference.verdicts(run).rstrip("\n")
