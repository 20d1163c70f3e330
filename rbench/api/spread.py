"""Run a suite in processes that this one starts: on this machine, in tasks of SLURM, or in actors of Ray.

Each process is a member of the RUN's team and takes what is free (`storage.team`). This one takes no job. It checks the
suite, starts the processes, follows the RUN, and writes the tables of what is there in the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from contextlib import closing

from rbench.api.executor import Executor
from rbench.api.following import Following
from rbench.api.run import device_of, joined, result_of
from rbench.api.run_result import RunResult
from rbench.api.starting import Shared, Suited, local, ray_actors, slurm_tasks
from rbench.plan.prepare import Options, Prepared
from rbench.progress import Progress
from rbench.storage.board import TeamBoard

Starter = Callable[[Shared, Callable[[], bool], Progress], Generator[str | None]]
STARTERS: dict[str, Starter] = {"local": local, "ray": ray_actors, "slurm": slurm_tasks}


def run_spread(
    suite: Suited, prepared: Prepared, options: Options, executor: Executor, progress: Progress
) -> RunResult:
    """Run a prepared suite in processes that `executor` says; see `rbench.api.run`.

    Ctrl-C and SIGTERM end the processes in order. Tasks of SLURM go on.
    """
    if executor.kind == "local":
        device_of(options.device)
    with joined(prepared, options, progress) as run:
        pass  # the plan is written and all is checked; from here on the others are the team
    if not run.todo:
        return result_of(run, options, progress, [], [], [], report=True)
    shared = Shared(suite, run.prepared, options, executor, run.team.folder.absolute())
    following = Following(run.todo, run.team, TeamBoard(run.team, run.store, run.cache, run.todo), progress)
    with closing(STARTERS[executor.kind](shared, lambda: following.over, progress)) as steps:
        for said in steps:
            following.look() if said is None else progress.note(said)
    if shared.submitted and not executor.wait:
        done = len(run.jobs) - len(run.todo)
        return RunResult(run.prepared.run, done, elsewhere=run.todo, submitted=shared.submitted)
    left = [] if following.over else following.left
    progress.finish("not complete" if left or following.failed else "complete")
    result = result_of(run, options, progress, following.failed, following.skipped, [], report=True)
    return dataclasses.replace(result, left=left)
