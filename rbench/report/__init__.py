"""Write a RUN as one HTML file that people open, read and share. It needs no server and no network.

data      what the page gets, as types
numbers, examples, provenance   the parts, each taken from the tables and verdicts that commands print
collect   puts the parts together, and says of each that is missing why
html      puts data, scripts and styles into one file, with a content security policy
"""

from __future__ import annotations

from rbench.report.collect import collect
from rbench.report.data import RunReport
from rbench.report.html import render_page

__all__ = ["RunReport", "collect", "render_page"]
