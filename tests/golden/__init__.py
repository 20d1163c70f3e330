"""Golden values: what each bundled module that decides results gives on a fixed tiny input.

`cases.py` says what is computed, `values/` holds what came out and `test_values.py` compares. In the repository's root
`python -m tests.golden.make` makes the values of new cases and of those whose VERSION was raised. Inputs come from
formulas (`formula.py`), not from the generators of a library that may change.
"""
