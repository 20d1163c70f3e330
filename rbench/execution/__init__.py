"""Run jobs: one of any stage (`job`), and all jobs of a plan in this process (`run`) or in several (`cluster`)."""
