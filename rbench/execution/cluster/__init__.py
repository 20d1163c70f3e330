"""Run a callable over jobs in several processes or on several machines, and know which of them are alive.

`executor` and its kin are ways to spread jobs; `leases`, `members` and `team` keep two processes from one job.
"""
