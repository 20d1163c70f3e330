"""The skips that `tox -e nightly` allows, each with its reason; any other one fails its run.

What is skipped everywhere is no longer tested. This is a plugin of pytest: `python -m pytest -p tests.skips`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest


class Allowed(NamedTuple):
    """A skip that is allowed."""

    test: str
    """How the test's id begins."""
    message: str
    """A regular expression for what it says when it is skipped."""
    reason: str
    """Why a nightly run on any machine may skip it."""


ALLOWED = (
    Allowed(
        "tests/store/weights/test_cache.py",
        "root may write anywhere",
        "Continuous integration works as root, from whom no file can be kept by its permissions.",
    ),
    Allowed(
        "tests/encoders/test_fitting.py",
        "OpenVINO cannot trace GPT-2",
        "Some versions of OpenVINO and transformers cannot trace GPT-2, and then PyTorch computes it.",
    ),
)


class Unlisted:
    """Collects the skips that are not in `allowed`, and fails a session that has one."""

    def __init__(self, allowed: tuple[Allowed, ...]) -> None:
        self.allowed, self.found = allowed, dict[str, str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._see(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file may be skipped as a whole, while its tests are looked for."""
        if report.skipped:
            self._see(report)

    def _see(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        message = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(report.nodeid.startswith(one.test) and re.search(one.message, message) for one in self.allowed):
            self.found[report.nodeid] = message

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.found and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found:
            terminalreporter.section("skips without a reason in tests/skips.py", red=True)
            for test, message in sorted(self.found.items()):
                terminalreporter.line(f"{test}: {message}")


def pytest_configure(config: pytest.Config) -> None:
    """Watch in the process that hears of all tests; with xdist, no process that runs some does."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Unlisted(ALLOWED), "unlisted skips")
