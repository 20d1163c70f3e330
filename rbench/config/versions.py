"""Finds the VERSIONs of the code that decides a job's result, which enter its key.

Each file whose code decides results states a VERSION. It uses the files with a VERSION that it imports. Keys hold the
VERSIONs above 1 of the code that a job uses (docs/keys.md). All of this is read from the source, because many of these
files import torch and planning should import none of them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from rbench.errors import SuiteError
from rbench.schema import KINDS
from rbench.system.own_code import failing_in

_PACKAGE = Path(__file__).resolve().parent.parent

PARTS: dict[str, tuple[str, ...]] = {
    "pretrain": ("train.loop", "encoders.sentence"),
    "selection": ("train.selection",),
    "finetune": ("encoders.classifier",),
    "parts": ("execution.parts",),
    "open model": ("victims.model",),
    "open answers": ("recipes.answering",),
    "attack": ("recipes.run", "recipes.victim", "recipes.build"),
    "recipe": ("recipes.binding",),
    "masked recipe": ("recipes.masked_lm",),
    "oracle": ("mini.oracle",),
    **{kind.family: kind.attack_code for kind in KINDS.values() if kind.attack_code},
    "measured": ("execution.measured",),
    "asked": ("encoders.classifier",),
    "static encoder": ("encoders.static",),
    "random encoder": ("encoders.random_weights",),
    "remote encoder": ("encoders.remote", "encoders.asked_vectors"),
    "word_vectors": ("encoders.vectors",),
    "synonyms": ("resources.lexical",),
    "masked_lm": ("resources.masked_lm",),
    "sentence_encoder": ("resources.sentences",),
    "pos_tagger": ("resources.lexical",),
    "stopwords": ("resources.lexical",),
}
"""The files that jobs use besides the modules that they name: by stage, by feature, and by resource that they need."""

_WITHOUT_EFFECT = ("errors", "config", "mini", "schema", "store", "system", "tasks")
"""Code that has no part in a job's result, or whose output (rows, words) is in keys as hashes."""
_OPENED_BY_PARTS = (
    "words.resources",
    "words.resources.runtime",
    "words.resources.locate",
    "encoders",
    "encoders.locate",
)
"""Code that opens the resources and encoders of a job. PARTS says which code these use."""


def part_versions(name: str) -> dict[str, int]:
    """Return the VERSIONs behind an entry of PARTS, by file.

    A file has the name of its folder and its own: `finetune.freelb` is rbench/train/finetune/freelb.py. So a folder may
    move to another one without a change of keys.
    """
    return _collect_versions(PARTS[name])


def versions_used_by(path: Path) -> dict[str, int]:
    """Return the VERSIONs of rbench's files that a Python file uses, without its own."""
    return _collect_versions(_used_files(path))


def declared(path: Path) -> int | None:
    """Return the VERSION that a Python file states, a whole number from 1 on written as a literal, or None."""
    value = _assigned_value(path, "VERSION")
    if value is None:
        return None
    with failing_in(f"{path}:{value.lineno}", SuiteError):
        return int(ast.literal_eval(value))


def assigned_text(path: Path, name: str) -> str:
    """Return the text that a Python file, or a class in it, assigns to a name; an empty one where it assigns none."""
    value = _assigned_value(path, name, classes=True)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def versioned_files() -> dict[str, Path]:
    """Return all files of the package that have a VERSION, by name."""
    return {_key_name(path): path for path in sorted(_PACKAGE.rglob("*.py")) if _states_version(path)}


def _collect_versions(names: Iterable[str]) -> dict[str, int]:
    versions: dict[str, int] = {}
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in versions:
            path = _files_by_name(_PACKAGE)[name]
            versions[name] = declared(path) or 1
            queue += _used_files(path)
    return dict(sorted(versions.items()))


def _used_files(path: Path) -> tuple[str, ...]:
    """Return the nearest files with a VERSION that a file imports, directly or through files without one.

    A file whose imports are not all used by every job lists the used ones: `USES = ("train.contrastive_losses",)`.
    """
    stated_uses = _assigned_value(path, "USES") if _module_parts(path, _PACKAGE) is not None else None
    if stated_uses is not None:
        return tuple(ast.literal_eval(stated_uses))
    return tuple(sorted({_key_name(file) for file in _walk_imports(path)[0]} - {_key_name(path)}))


def _assigned_value(path: Path, name: str, *, classes: bool = False) -> ast.expr | None:
    """Return the expression that a file assigns to a name outside of functions, and also in its classes or not."""
    if _module_parts(path, _PACKAGE) is not None and name.encode() not in _read_source(path):
        return None  # most of rbench's own files, and to parse them all takes a good part of planning
    body = _parse_file(path).body
    inside = [node for statement in body if classes and isinstance(statement, ast.ClassDef) for node in statement.body]
    for node in (*body, *inside):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            return node.value
    return None


def parts_of(path: Path) -> set[Path]:
    """Return a file and the files without a VERSION through which it reaches others. They count as parts of it."""
    return _walk_imports(path)[1]


def _walk_imports(path: Path) -> tuple[set[Path], set[Path]]:
    """Return the nearest files with a VERSION, and the files on the way to them, `path` included."""
    versioned: set[Path] = set()
    passed = {path}
    queue = [path]
    while queue:
        for file in _imported_files(_parse_file(queue.pop())):
            # A file with a VERSION ends the way: its own VERSION speaks for what lies behind it.
            if _states_version(file):
                versioned.add(file)
            elif file not in passed and not _passed_by(_module_name(file)):
                passed.add(file)
                queue.append(file)
    return versioned, passed


def _passed_by(name: str) -> bool:
    return name.partition(".")[0] in _WITHOUT_EFFECT or name in _OPENED_BY_PARTS


@functools.lru_cache(maxsize=512)
def _imported_files(tree: ast.Module) -> tuple[Path, ...]:
    """Return the files of the package that a file imports anywhere, except under `if TYPE_CHECKING`."""
    imported: list[Path | None] = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            imported += [
                _module_file(alias.name.removeprefix("rbench.")) for alias in node.names if _is_ours(alias.name)
            ]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and _is_ours(node.module):
            module = node.module.removeprefix("rbench").removeprefix(".")
            imported += [_file_behind(module, alias.name) for alias in node.names]
    return tuple(file for file in imported if file is not None and file.parent != _PACKAGE.parent)


def _file_behind(module: str, name: str) -> Path | None:
    """Return the file that `from rbench.module import name` reads.

    Where a package's `__init__.py` imports the name from another file, that file is returned.
    """
    inside = _module_file(f"{module}.{name}".removeprefix("."))
    file = _module_file(module)
    if file is None or file.name != "__init__.py":
        return file or inside
    for node in _statements(_parse_file(file)):
        if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
            return _module_file((node.module or "").removeprefix("rbench.")) or inside
    return inside or file


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from _statements(child)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "rbench"


def _module_file(name: str) -> Path | None:
    """Return the file of a module of the package, such as `train.loop`, or None where there is none."""
    place = _PACKAGE.joinpath(*name.split(".")) if name else _PACKAGE
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((file for file in candidates if file.is_file() and file.is_relative_to(_PACKAGE)), None)


@functools.cache
def _files_by_name(package: Path) -> dict[str, Path]:
    """Return the files of a package by their names in keys. A test holds that one with a VERSION has its own."""
    return {_key_name(path): path for path in package.rglob("*.py") if path.name != "__init__.py"}


def _key_name(path: Path) -> str:
    """Return the name of a file in keys: its folder and its own name, as in `train.loop`."""
    parts = _module_parts(path, _PACKAGE)
    return str(path) if parts is None else ".".join(parts[-2:])


def _module_name(path: Path) -> str:
    parts = _module_parts(path, _PACKAGE)
    return str(path) if parts is None else ".".join(parts)


@functools.lru_cache(maxsize=1024)
def _module_parts(path: Path, package: Path) -> tuple[str, ...] | None:
    """Return the names of packages and module by which a file of the package is imported; None for another file."""
    if not path.is_relative_to(package):
        return None
    parts = path.relative_to(package).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def _states_version(path: Path) -> bool:
    return path.name != "__init__.py" and declared(path) is not None


def _parse_file(path: Path) -> ast.Module:
    return _parse_cached(path, _read_source(path))


def _read_source(path: Path) -> bytes:
    """Return a file's content. A plan asks for each file of rbench dozens of times, and reads it once."""
    if _module_parts(path, _PACKAGE) is None:
        return path.read_bytes()
    status = path.stat()
    return _read_cached(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1024)
def _read_cached(path: Path, *_: int) -> bytes:
    return path.read_bytes()


@functools.lru_cache(maxsize=512)
def _parse_cached(path: Path, source: bytes) -> ast.Module:
    with failing_in(path, SuiteError):
        return ast.parse(source)
