"""Reads tables from users' files: CSV, TSV, JSON, JSON Lines, parquet, and folders of the datasets library.

`open_place` reads a file, or a folder with one table for each split. Every row keeps its place (`file:line`), and a
file that could be read in a wrong way is refused. Which column means what is decided elsewhere (`rbench.config.tasks`).
"""

from __future__ import annotations

from rbench.config.tabular.places import Place, files_of, is_table, open_place, splits_of
from rbench.config.tabular.readers import Line, Table, check_unicode, text_of_label
