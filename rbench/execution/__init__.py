"""Run the jobs of a plan: one job of any stage (`job`), all of them in processes or on machines (`run`, `cluster`)."""
