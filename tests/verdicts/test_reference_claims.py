"""The committed verdicts are those that rbench gives on the committed RUNs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rbench import api
from tests import reference

FILES = sorted((reference.REFERENCE / "claims").glob("*.yaml"))


def test_each_run_has_claims() -> None:
    assert {file.stem for file in FILES} == {*reference.NAMES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_verdicts_are_as_committed(file: Path) -> None:
    found = api.claims_table(api.claims(reference.run(file.stem), file, ()), "markdown")
    assert found.rstrip("\n") == reference.verdicts(file.stem).rstrip("\n")
