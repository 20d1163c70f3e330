"""Measures how long and how much memory commands take on a RUN with a million outcomes.

    python benchmarks/million.py [--jobs 1000] [--outcomes 1000] [--only COMMAND ...]

Writes a synthetic RUN (`synthetic.py`), with two encoders, and runs each command once in a fresh process.
benchmarks/results/million.json gets seconds (wall and processor) and peak memory of each command, with machine,
versions and this command. No command has worker processes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from machine import cores, processor

RESULTS = Path(__file__).parent / "results" / "million.json"
PACKAGES = ("numpy", "pandas", "pydantic", "pyarrow")
MAIN = "from rbench.cli import main; main()"
ENCODERS = ("mini-bert", "mini-bert-2layer")
COMMANDS: dict[str, list[str]] = {
    "status": ["-c", MAIN, "status", "RUN"],
    "table": ["-c", MAIN, "table", "RUN"],
    "compare": ["-c", MAIN, "compare", "RUN", "--between", *ENCODERS],
    "claims": ["-c", MAIN, "claims", "RUN"],
    "figure": ["-c", MAIN, "figure", "RUN", "--kind", "budget", "--out", "FIGURES"],
    "load_results": ["-c", "import sys, rbench; print(len(rbench.load_results(sys.argv[1])))", "RUN"],
    "report": ["-c", MAIN, "report", "RUN", "--out", "PAGE"],
    "verify": ["-c", MAIN, "verify", "RUN"],
}


def measure(words: list[str], folder: Path, limit: float) -> dict[str, float | int | str]:
    """Run a command; return its seconds, peak memory in MB, exit code, and the last line where it failed."""
    places = {"RUN": folder / "run", "FIGURES": folder / "figures", "PAGE": folder / "page.html"}
    began = time.monotonic()
    with (folder / "said").open("w+") as said:
        command = [sys.executable, *(str(places.get(word, word)) for word in words)]
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=folder)
        usage = None
        while usage is None:
            pid, status, found = os.wait4(process.pid, os.WNOHANG)
            if pid:
                usage = found
            elif time.monotonic() - began > limit:
                process.kill()
                os.wait4(process.pid, 0)
                return {"seconds": round(limit), "error": "stopped at the limit"}
            time.sleep(0.01)
        said.seek(0)
        last = said.read().rstrip().rpartition("\n")[2]
    code = os.waitstatus_to_exitcode(status)
    row: dict[str, float | int | str] = {
        "seconds": round(time.monotonic() - began, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024)),
        "exit": code,
    }
    return row | ({"error": last[:200]} if code else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000, help="attack jobs, a multiple of 20")
    parser.add_argument("--outcomes", type=int, default=1000, help="outcomes of each attack job")
    parser.add_argument("--only", nargs="*", default=[*COMMANDS], choices=[*COMMANDS], metavar="COMMAND")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which a command is stopped")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the RUN there, or take the one that is there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="million-") as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "run" / "plan.json").exists():
            # In a process of its own: the memory of this one would count for those that it starts.
            code = "import sys, synthetic; from pathlib import Path; f, j, n = sys.argv[1:]; "
            code += f"synthetic.write_run(Path(f), int(j), int(n), {ENCODERS})"
            subprocess.run(
                [sys.executable, "-c", code, str(folder), str(args.jobs), str(args.outcomes)],
                check=True,
                env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{Path(__file__).parent.parent}"},
            )
        document: dict[str, object] = json.loads(args.out.read_bytes()) if args.out.exists() else {}
        measured = document.get("commands")
        rows = measured if isinstance(measured, dict) else {}
        for name in args.only:
            rows[name] = measure(COMMANDS[name], folder, args.limit)
            print(f"{name}: {rows[name]}", flush=True)
            document = {
                "command": "python benchmarks/million.py " + " ".join(sys.argv[1:]),
                "outcomes": args.jobs * args.outcomes,
                "jobs": args.jobs,
                "machine": {"processor": processor(), "cores": cores(), "system": platform.platform()},
                "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
                "commands": rows,
            }
            args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
