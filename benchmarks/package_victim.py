"""Make the victim that comes with rbench for its own CI: rbench/packaged/robustsentembed-mini-victim.

    python benchmarks/package_victim.py

It trains and fine-tunes what `rbench run gate --profile from-scratch` attacks, or takes it from the cache. It rounds
the weights and the head to half precision and writes `victim.json` beside them, with the key and scores of the
fine-tuning. A test compares the key with today's. If it fails, the code or the data behind the victim has changed. Then
run this again, and

    rbench run gate && rbench baseline results/runs/gate --out results/gate/baseline.json
"""

from __future__ import annotations

import shutil

from package_weights import NOT_COPIED, halve, write

from rbench import api
from rbench.encoders.locate import PACKAGED
from rbench.schema import FinetuneJob
from rbench.store.runs import RunStore
from rbench.store.weights import WeightCache, default_cache
from rbench.system import scratch

NAME = "robustsentembed-mini-victim"


def main() -> None:
    with scratch.temporary_folder("victim") as run:
        options = api.Options(profile="from-scratch", only=("finetune/",), out=run)
        api.run("gate", options)
        plan = api.plan("gate", options).plan
        (job,) = (job for job in plan.jobs if isinstance(job.spec, FinetuneJob))
        record = RunStore(run).record(job)
    assert record is not None and record.status == "complete"
    folder = PACKAGED / NAME
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(WeightCache(default_cache()).folder(job.key), folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for weights in folder.glob("*.safetensors"):
        halve(weights)
    scores = {score.name: score.value for score in record.scores}
    write(folder / "victim.json", {"job": job.name, "key": job.key, "scores": scores})
    print(f"{folder.name}: {sum(file.stat().st_size for file in folder.rglob('*') if file.is_file()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
