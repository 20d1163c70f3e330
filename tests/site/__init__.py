"""Tests of rbench.site."""
