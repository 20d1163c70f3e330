"""Runs code in a process that is as new as an interpreter's, except that it need not import PyTorch and pandas.

One process imports the libraries in `LIBRARIES` and forks for each piece of code. What reads its surroundings when it
is imported, as most of rbench, transformers and the client of the hub do, is left to the code, so that each process
reads its own. To import PyTorch and what goes with it takes several times as long as what the code does.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

LIBRARIES = (
    *("torch", "torch._dynamo", "torch.distributed", "numpy", "scipy.stats", "scipy.sparse", "sklearn.metrics"),
    *("pandas", "pyarrow.parquet", "pyarrow.dataset", "requests", "httpx", "aiohttp", "fsspec", "dill", "multiprocess"),
    *("yaml", "pydantic", "rich.console", "tqdm.auto", "tokenizers", "safetensors.torch", "regex"),
    *("boto3", "PIL.Image", "jinja2"),
    "rbench.schema",  # of rbench only this, whose models take as long to make as all the rest
)
SECONDS = 120
"""How long the code may take."""

SERVER = """
import gc, importlib, importlib.util, json, os, sys, tempfile, traceback

PURE = ("rbench.schema", "rbench.errors", "rbench.masking")
for name in json.loads(sys.argv[1]):
    if importlib.util.find_spec(name.partition(".")[0]) is not None:  # boto3 and PIL are there for flair alone
        importlib.import_module(name)
reading = {"transformers", "huggingface_hub", "datasets", "accelerate", "nltk"} & sys.modules.keys()
reading |= {name for name in sys.modules if name.startswith("rbench.") and not name.startswith(PURE)}
assert not reading, f"{reading} have read the surroundings of this process"
gc.freeze()
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if child := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for file, number in ((asked["out"], 1), (asked["err"], 2)):
            os.dup2(os.open(file, os.O_WRONLY), number)
        os.environ.clear()
        os.environ.update(asked["env"])
        tempfile.tempdir = None
        sys.argv = ["-c", *asked["arguments"]]
        exec(compile(asked["code"], "<string>", "exec"), {"__name__": "__main__"})
        status = 0
    except SystemExit as ended:
        status = int(bool(ended.code))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
"""


class Ended(NamedTuple):
    """What a process leaves."""

    returncode: int
    stdout: str
    stderr: str


def run(code: str, env: Mapping[str, str], *arguments: str) -> Ended:
    """Run `code` with these variables and arguments, which it finds in `sys.argv[1:]`.

    Raises:
        TimeoutError: it takes longer than `SECONDS`.
    """
    if sys.platform != "linux":  # elsewhere a fork of a process that has imported frameworks may crash
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=dict(env), capture_output=True, text=True, timeout=SECONDS, check=False)
        return Ended(done.returncode, done.stdout, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        out.touch()
        err.touch()
        asked = {"code": code, "env": dict(env), "arguments": arguments, "out": str(out), "err": str(err)}
        status = _answer(_server(os.getpid()), json.dumps(asked))
        return Ended(int(status), out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _answer(server: subprocess.Popen[str], asked: str) -> str:
    assert server.stdin is not None and server.stdout is not None
    server.stdin.write(f"{asked}\n")
    server.stdin.flush()
    if not select.select([server.stdout], [], [], SECONDS)[0]:
        server.kill()
        _server.cache_clear()
        raise TimeoutError(f"the code takes more than {SECONDS} seconds")
    answer = server.stdout.readline().strip()
    assert answer, "the process that forks has ended"
    return answer


@cache
def _server(owner: int) -> subprocess.Popen[str]:
    """The process that forks. It ends with the process `owner`, which is this one; a fork of it starts its own."""
    command = [sys.executable, "-c", SERVER, json.dumps(LIBRARIES)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    atexit.register(server.kill)
    return server
