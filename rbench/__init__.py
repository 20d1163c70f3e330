"""rbench: a robustness benchmarking harness for sentence encoders."""

from __future__ import annotations

__version__ = "0.1.0"
