"""From a suite to its jobs: `prepare` finds and hashes what it names, `planner` makes jobs, `estimate` their cost."""
