"""The RUN with texts that would do harm as markup, whose pages tests open."""

from __future__ import annotations

from tests.report.conftest import run as run
