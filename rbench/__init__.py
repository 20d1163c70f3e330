"""rbench: how robust is a sentence encoder, or a classifier that exists?

From Python:

    run(suite)                      run a suite: a name, a path, a mapping or a Suite; returns tables and frames
    attack(victim, texts, labels)   attack texts that any classifier reads; returns what became of each
    rank(encoder, queries, ...)     rank documents with any encoder, score the rankings, and attack the queries
    load_results(run)               one row for each attacked example of a RUN, as a data frame
    table(run)                      a table of a RUN, as text
    compare(run, between=(A, B))    compare two encoders, strategies or attacks, text by text
    compare_scores(a, b)            compare two systems by scores of single items that any tool wrote
    audit_log(log, victim)          replay the log of an attack, and check what its rate takes for granted
    claims(run)                     which claims of its suite a RUN supports
    figure(run, kind)               draw a figure of what a RUN stores
    load_encoder(name)              an encoder: texts in, vectors out
    textattack_wrapper(victim)      any victim as a ModelWrapper of TextAttack
    write_textattack_csv(run, path) attacked examples as TextAttack's CSV log
    Options                         how a suite is run, as one object

`rbench.api` has all that the command line calls. The guide is docs/guide-use-from-python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rbench.api import Options
    from rbench.api.attacking import attack_texts as attack
    from rbench.api.attacking import textattack_wrapper
    from rbench.api.auditing import audit_log
    from rbench.api.judging import claims, compare
    from rbench.api.ranking import rank
    from rbench.api.reporting import figure
    from rbench.api.results import write_textattack_csv
    from rbench.api.runs import load_results, table
    from rbench.api.scoring import compare_scores
    from rbench.api.suites import run
    from rbench.api.training import load_encoder

__version__ = "0.1.0"
__all__ = [
    "Options",
    "__version__",
    "attack",
    "audit_log",
    "claims",
    "compare",
    "compare_scores",
    "figure",
    "load_encoder",
    "load_results",
    "rank",
    "run",
    "table",
    "textattack_wrapper",
    "write_textattack_csv",
]


_IN_API = {"attack": "attack_texts"}
"""The functions that have another name in `rbench.api`, where `attack` runs a single attack of a suite."""


def __getattr__(name: str) -> Any:
    """Load the API on first use, so that `import rbench` and `rbench --help` stay instant."""
    if name == "api":
        import importlib

        return importlib.import_module("rbench.api")
    if name in __all__:
        from rbench import api

        return getattr(api, _IN_API.get(name, name))
    raise AttributeError(f"module 'rbench' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
