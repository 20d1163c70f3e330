"""Counts the modules of rbench/ and their lines by kind, in several versions.

    python benchmarks/lines.py COMMIT... --out benchmarks/results/lines.json

A line is of one kind:

code        statements, without those below
signature   from a decorator or `def` to the line before the body: names, types and defaults of parameters
import      imports, at the top of a module or in functions
docstring   texts that document modules, classes, functions and attributes
comment     lines that hold a comment alone
blank       empty lines, most of which ruff's format sets

`files` are the modules that are found by their names (objectives, strategies, measures, metrics, kinds of noise and
figures): what a new one of its kind adds. Prints a table; --out FILE writes it as JSON.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("code", "signature", "import", "docstring", "comment", "blank")
FOLDERS = ("objectives", "finetune", "measures", "metrics", "noise", "figures")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commits", nargs="*", default=["HEAD"], metavar="COMMIT")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found = [counted(commit) for commit in args.commits]
    print("commit    day        modules   lines " + " ".join(f"{kind:>10}" for kind in KINDS) + "  files (lines)")
    for one in found:
        kinds = " ".join(f"{one['kinds'][kind]:>10}" for kind in KINDS)
        files = one["files"]
        print(
            f"{one['commit']} {one['day']} {one['modules']:7} {one['lines']:7} {kinds}  {files['n']} ({files['lines']})"
        )
    if args.out is not None:
        document = {"what": "lines of rbench/ by kind; see benchmarks/lines.py", "versions": found}
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def counted(commit: str) -> dict[str, object]:
    """Count the lines of all Python files of rbench/ in a commit."""
    names = [
        name for name in git("ls-tree", "-r", "--name-only", commit, "rbench/").split("\n") if name.endswith(".py")
    ]
    sources = {name: git("show", f"{commit}:{name}") for name in names}
    kinds = sum((Counter(kinds_of(source)) for source in sources.values()), Counter())
    by_name = [name for name in names if Path(name).parent.name in FOLDERS and not Path(name).name.startswith("_")]
    said, day = git("log", "-1", "--format=%h %cs", "--abbrev=8", commit).split()
    return {
        "commit": said,
        "day": day,
        "modules": len(names),
        "lines": kinds.total(),
        "kinds": {kind: kinds[kind] for kind in KINDS},
        "files": {"n": len(by_name), "lines": sum(len(sources[name].splitlines()) for name in by_name)},
    }


def kinds_of(source: str) -> list[str]:
    """Return the kind of each line."""
    lines = source.splitlines()
    kinds = ["blank" if not line.strip() else "comment" if line.lstrip().startswith("#") else "code" for line in lines]

    def mark(first: int, last: int, kind: str) -> None:
        for place in range(first - 1, last):
            if kinds[place] == "code" or kind == "docstring":
                kinds[place] = kind

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            mark(node.lineno, node.end_lineno or node.lineno, "import")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            mark(first, node.body[0].lineno - 1, "signature")
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str):
                mark(one.lineno, one.end_lineno or one.lineno, "docstring")
    return kinds


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"error: git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n")


if __name__ == "__main__":
    main()
