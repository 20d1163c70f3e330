"""Run the jobs of a RUN in several processes, on one machine or many.

`executor` says how processes are started; `child`, `slurm` and `ray_actors` start them. `membership` says which
processes are alive and hold what, and `scheduler` gives each job to one of them.
"""
