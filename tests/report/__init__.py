"""Tests of rbench.report."""
