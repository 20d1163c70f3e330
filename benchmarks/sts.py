"""Times the seven sets of STS as `rbench run sts` scores them, beside encoding their sentences and nothing else.

    python benchmarks/sts.py --model FOLDER --data DIR --out FILE

Both sides run in turn, in processes of their own. `encoding` opens the folder and encodes each distinct sentence of all
sets once, in one call. `scoring` is the suite `sts` with the folder as its only encoder: rows, plan, records,
tables. A first run of `encoding`, which is not counted, lets rbench measure its back-ends, whose choice is remembered.

The JSON holds the seconds of each run. `work` is the sum over all jobs; of `encoding` it is opening and calling the
encoder. Both have the import of PyTorch in it. `all` also has the start of Python and planning. The ratio is that of
the medians of `work`. The JSON also holds correlations, numbers of sentences, the machine and versions.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import cores, processor

SETS = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")


def main() -> None:
    args = parse()
    if args.side is not None:
        print(json.dumps({"encoding": encoding, "scoring": scoring}[args.side](args)))
        return
    started(args, "encoding")  # measures the back-ends, and fills the cache of files
    runs: dict[str, list[dict[str, Any]]] = {"encoding": [], "scoring": []}
    for number in range(args.runs):
        for side in list(runs)[:: 1 if number % 2 else -1]:
            runs[side].append(started(args, side))
    work = {side: statistics.median(run["work"] for run in found) for side, found in runs.items()}
    result = {
        "model": args.model.name,
        "sets": args.tasks,
        **{name: runs["encoding"][0][name] for name in ("sentences", "of_pairs")},
        "seconds": {side: [{k: run[k] for k in ("work", "all")} for run in found] for side, found in runs.items()},
        "scoring, as a multiple of encoding": round(work["scoring"] / work["encoding"], 3),
        "spearman": runs["scoring"][0]["spearman"],
        "load": os.getloadavg()[0],
        "machine": {"processor": processor(), "cores": cores()},
        "versions": {name: version(name) for name in ("torch", "transformers", "scipy")},
    }
    print(json.dumps(result, indent=2))
    if args.out is not None:
        args.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def started(args: argparse.Namespace, side: str) -> dict[str, Any]:
    """Run one side in a process of its own; return what it says, with the seconds of the whole process as `all`."""
    given = ["--model", str(args.model), "--tasks", *args.tasks, *(f"--data={path}" for path in args.data)]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, __file__, *given, "--side", side], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found | {"all": round(time.perf_counter() - began, 2)}


def encoding(args: argparse.Namespace) -> dict[str, Any]:
    """Encode each distinct sentence of the sets once."""
    from rbench import config
    from rbench.config.registry import Registry
    from rbench.encoders.model_metadata import read_fields
    from rbench.schema import EncoderSpec
    from rbench.tasks import open_task

    rows = [
        row for name in args.tasks for row in open_task(config.load_task(name, Registry()), args.data).split("test")
    ]
    texts = list(dict.fromkeys(text for row in rows for text in row.texts))
    spec = EncoderSpec(**{"name": args.model.name, "base": args.model.name, **read_fields(args.model)})
    began = time.perf_counter()
    from rbench import encoders  # the first job of a run imports PyTorch too

    encoders.load(spec, args.model).encode(texts, "fastest")
    return {
        "work": round(time.perf_counter() - began, 2),
        "sentences": len(texts),
        "of_pairs": sum(len(row.texts) for row in rows),
    }


def scoring(args: argparse.Namespace) -> dict[str, Any]:
    """Run the suite `sts` on the folder."""
    from rbench import api
    from rbench.store.runs import RunStore

    with tempfile.TemporaryDirectory() as folder:
        overrides = (f"encoders=[{args.model.resolve()}]", f"evaluate=[{', '.join(args.tasks)}]")
        options = api.Options(overrides=overrides, data=tuple(args.data), out=Path(folder) / "run", device="cpu")
        result = api.run("sts", options)
        if result.failed:
            raise SystemExit(f"the run failed: {result.failed}")
        records = RunStore(result.run).records()
    return {
        "work": round(sum(record.provenance.seconds for record in records), 2),
        "spearman": {record.job.parts[1]: round(record.scores[0].value or 0, 4) for record in records},
    }


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="folder of an encoder")
    parser.add_argument(
        "--data", type=Path, action="append", required=True, help="folder with data sets; may be repeated"
    )
    parser.add_argument("--tasks", nargs="+", default=list(SETS), help="STS tasks whose test pairs are scored")
    parser.add_argument("--runs", type=int, default=3, help="runs of each side")
    parser.add_argument("--out", type=Path, help="file for the JSON")
    parser.add_argument("--side", choices=("encoding", "scoring"), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
