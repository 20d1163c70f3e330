"""RUNs made by hand, as tables' tests make them."""

from tests.tables.conftest import make_run

__all__ = ["make_run"]
