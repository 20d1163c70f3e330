"""RUNs made by hand, as tests of tables and of measures make them."""

from tests.measures.words_runs import words_run
from tests.tables.conftest import make_run

__all__ = ["make_run", "words_run"]
