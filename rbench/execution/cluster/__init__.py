"""Run the jobs of a RUN in several processes, on one machine or many.

`executor` says how processes are started; `child`, `slurm` and `ray_actors` start them. `members` and `team` say which
processes are alive, and `leases` gives each job to one of them.
"""
