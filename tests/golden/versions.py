"""Finds the VERSIONs that a case depends on: those of its files and of all that they import."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.golden.case import Case
from tests.recipes.world import ROOT

Versions = dict[str, int | str]
"""By file. Of a recipe in YAML, which has no VERSION, a hash of its content, which is in keys as it is."""


def versions(case: Case, root: Path = ROOT) -> Versions:
    """Of the files of `case`, which stand under 1 where they say nothing, and of what they import and has a VERSION."""
    found: Versions = {}
    for file in case.files:
        if file.endswith(".yaml"):
            found[file] = recipe(file)
            continue
        found[file] = declared(root / file) or 1
        for other in reached(root / file, root):
            number = declared(other)
            if number is not None:
                found[str(other.relative_to(root))] = number
    return dict(sorted(found.items()))


def raised(now: Versions, recorded: Versions) -> bool:
    """Whether a VERSION is higher than what is recorded, or a recipe another, and no VERSION is lower."""
    files = [file for file in {**recorded, **now} if now.get(file, 1) != recorded.get(file, 1)]
    pairs = [(now.get(file, 1), recorded.get(file, 1)) for file in files]
    return bool(pairs) and all(isinstance(a, str) or isinstance(b, str) or a > b for a, b in pairs)


@cache
def recipe(file: str) -> str:
    """A hash of what a recipe says, but for titles, notes and the like."""
    from rbench.schema import content_key
    from tests.recipes import world

    return content_key(world.spec(Path(file).stem))[:16]


@cache
def declared(path: Path) -> int | None:
    """The whole number that a module's VERSION is; None where it has none. The module is read, not imported."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if _annotated(node) else []
        named = any(isinstance(target, ast.Name) and target.id == "VERSION" for target in targets)
        if named and isinstance(value := getattr(node, "value", None), ast.Constant) and isinstance(value.value, int):
            return value.value
    return None


def _annotated(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign)


@cache
def reached(path: Path, root: Path) -> frozenset[Path]:
    """The modules of rbench that a file imports, anywhere in it, and that those import."""
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        for other in imported(waiting.pop(), root) - found:
            found.add(other)
            waiting.append(other)
    return frozenset(found)


@cache
def imported(path: Path, root: Path) -> frozenset[Path]:
    """The modules of rbench that a file imports itself."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
    places = [root.joinpath(*name.split(".")) for name in names if name.split(".")[0] == "rbench"]
    files = {file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")}
    return frozenset(file for file in files if file.is_file())
