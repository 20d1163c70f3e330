"""rbench: a robustness benchmarking harness for sentence encoders.

`rbench.run(suite)` runs a suite and returns its tables; `rbench.load_results(run)` gives one row an attacked example.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Options", "__version__", "load_results", "run", "table"]
# To plan is `rbench.api.plan`: `rbench.plan` is the package that it uses.


def __getattr__(name: str) -> Any:
    """Load the API on first use, so that `import rbench` and `rbench --help` stay instant."""
    if name in __all__:
        from rbench import api

        return getattr(api, name)
    raise AttributeError(f"module 'rbench' has no attribute {name!r}")
