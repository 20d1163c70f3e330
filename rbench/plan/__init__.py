"""Turns a suite into jobs: `prepare` finds and hashes what it names, `planner` makes jobs, `estimate` tells costs."""
