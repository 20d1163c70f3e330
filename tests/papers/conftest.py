"""The RUN made by hand that tests of tables use."""

from __future__ import annotations

from tests.tables.conftest import make_run as make_run
