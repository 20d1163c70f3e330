"""A fixture for pytest that fails a test where a model has become easier to fool than its baseline, or where an encoder
no longer gives the vectors of its baseline:

    def test_gate(rbench_gate):
        rbench_gate("baseline.json", "./model", task="mr")

    def test_vectors(rbench_gate):
        rbench_gate("vectors.json", "./emb.yaml")

pytest imports this module in every session of an environment that has rbench, so it imports nothing but pytest.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OPTION = "--rbench-baseline"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that makes baselines anew."""
    parser.getgroup("rbench").addoption(
        OPTION,
        action="store_true",
        help="rbench_gate: write the baselines of the tests that run, of the models as they are",
    )


@pytest.fixture
def rbench_gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Attack a model and check it against a baseline, whose path is relative to the file of the test.

    It takes what `rbench.api.gate` takes, returns the check, and fails the test where the check fails or cannot be
    judged. Where the baseline is written, one that no check can judge is a warning. The RUN lies in pytest's cache, so
    what was attacked already is not attacked again.
    """

    def gate(baseline: str | Path, model: Any = None, **how: Any) -> Any:
        from rbench import api
        from rbench.errors import RbenchError

        where = request.path.parent / baseline
        key = hashlib.sha256(f"{request.node.nodeid} {baseline}".encode()).hexdigest()[:16]
        cache = getattr(request.config, "cache", None)  # None with `-p no:cacheprovider`
        runs = tmp_path_factory.mktemp("rbench") if cache is None else cache.mkdir("rbench")
        out = how.pop("out", None) or runs / key
        if not where.is_file() and not request.config.getoption(OPTION):
            pytest.fail(f"{where} is not there; pytest {OPTION} writes it", pytrace=False)
        writing = bool(request.config.getoption(OPTION))
        error, found = None, None
        try:
            found = api.gate(where, model, out=out, write=writing, **how)
        except RbenchError as raised:  # it says what is wrong with the model or the data; a traceback would hide it
            error = raised
        if found is None:
            pytest.fail(f"rbench: {error}", pytrace=False)
        if found.verdict != "passed":
            message = f"rbench: {found.verdict}\n{api.check_table(found)}"
            if not writing:
                pytest.fail(message, pytrace=False)
            warnings.warn(f"{where} is written, but a check of it does not pass: {message}", stacklevel=2)
        return found

    return gate
