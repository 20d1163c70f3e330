"""Which code decides a result: each file that does has a VERSION, and uses the files with one that it imports.

Keys hold the VERSIONs above 1 of the code that a job uses (docs/keys.md). All of it is read off the source: planning
imports none of these files, many of which import torch.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from rbench.errors import SuiteError

_PACKAGE = Path(__file__).resolve().parent.parent

PARTS: dict[str, tuple[str, ...]] = {
    "pretrain": ("train.loop", "encoders.sentence"),
    "selection": ("train.selection",),
    "finetune": ("encoders.classifier",),
    "attack": ("attack.run", "attack.victim", "attack.build"),
    "recipe": ("attack.dry_build",),
    "masked recipe": ("attack.masked_lm",),
    "oracle": ("mini.oracle",),
    "evaluate": ("score.sts", "encoders.sentence"),
    "contrast": ("stages.contrast",),
    "static encoder": ("encoders.static",),
    "word_vectors": ("encoders.vectors",),
    "synonyms": ("resources.lexical",),
    "masked_lm": ("resources.masked_lm",),
    "sentence_encoder": ("resources.sentences",),
    "pos_tagger": ("resources.lexical",),
    "stopwords": ("resources.lexical",),
}
"""What jobs use beside the module that they name: by stage, by what they are asked, and by the resources they need."""

_ELSEWHERE = ("errors", "hub", "load", "mini", "progress", "spec", "storage", "system", "tasks")
"""Code that computes nothing of a job's result, or whose results (rows, words) are in keys as hashes."""
_AS_ASKED = ("resources", "resources.runtime", "resources.locate", "encoders", "encoders.load", "encoders.locate")
"""Code that opens what a job is asked to use: which that is, PARTS says."""


def part(name: str) -> dict[str, int]:
    """The VERSIONs behind a part of all jobs, by file: `train.loop` is rbench/train/loop.py."""
    return _with_used(PARTS[name])


def used_by(path: Path) -> dict[str, int]:
    """The VERSIONs of rbench's files that a Python file uses, its own left out."""
    return _with_used(_used(path))


def declared(path: Path) -> int | None:
    """The VERSION that a Python file states; None where it states none. SuiteError where it is no whole number."""
    value = _stated(path, "VERSION")
    if value is None:
        return None
    number = value.value if isinstance(value, ast.Constant) else None
    if type(number) is not int or number < 1:
        raise SuiteError(f"{path}:{value.lineno}: VERSION is a whole number from 1 on, written out")
    return number


def files() -> dict[str, Path]:
    """All files of the package that have a VERSION, by name."""
    return {_name(path): path for path in sorted(_PACKAGE.rglob("*.py")) if _states_version(path)}


def _with_used(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    queue = list(names)
    while queue:
        name = queue.pop()
        if name not in found:
            path = _file(name)
            assert path is not None
            found[name] = declared(path) or 1
            queue += _used(path)
    return dict(sorted(found.items()))


def _used(path: Path) -> tuple[str, ...]:
    """The nearest files with a VERSION that a file imports: itself, or through files without one.

    Where not all that is imported is used by every job, a file says what is: `USES = ("train.contrastive_losses",)`.
    """
    said = _stated(path, "USES") if path.is_relative_to(_PACKAGE) else None
    return _reached(path) if said is None else tuple(ast.literal_eval(said))


def _stated(path: Path, name: str) -> ast.expr | None:
    """What a file assigns to a name, outside of functions and classes."""
    for node in _tree(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            return node.value
    return None


def _reached(path: Path) -> tuple[str, ...]:
    return tuple(sorted({_name(file) for file in _walk(path)[0]} - {_name(path)}))


def parts_of(path: Path) -> set[Path]:
    """A file with those without a VERSION through which it reaches others: they count as parts of it."""
    return _walk(path)[1]


def _walk(path: Path) -> tuple[set[Path], set[Path]]:
    """The nearest files with a VERSION, and what was passed on the way to them, the beginning included."""
    found: set[Path] = set()
    passed = {path}
    queue = [path]
    while queue:
        for file in _imported(queue.pop()):
            if _states_version(file):
                found.add(file)
            elif file not in passed and not _passed_by(_name(file)):
                passed.add(file)
                queue.append(file)
    return found, passed


def _passed_by(name: str) -> bool:
    return name.partition(".")[0] in _ELSEWHERE or name in _AS_ASKED


def _imported(path: Path) -> tuple[Path, ...]:
    """The files of the package that a file imports, anywhere but for type checking alone."""
    return _imports(_tree(path))


@functools.lru_cache(maxsize=512)
def _imports(tree: ast.Module) -> tuple[Path, ...]:
    return tuple(_each_import(tree))


def _each_import(tree: ast.Module) -> Iterator[Path]:
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            found = [_file(alias.name.removeprefix("rbench.")) for alias in node.names if _ours(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and _ours(node.module):
            found = [_behind(node.module.removeprefix("rbench").removeprefix("."), alias.name) for alias in node.names]
        else:
            continue
        yield from (file for file in found if file is not None and file.parent != _PACKAGE.parent)


def _behind(module: str, name: str) -> Path | None:
    """The file that `from rbench.module import name` means: of what a package passes on, the file that has it."""
    inside = _file(f"{module}.{name}".removeprefix("."))
    file = _file(module)
    if file is None or file.name != "__init__.py":
        return file or inside
    for node in _statements(_tree(file)):
        if isinstance(node, ast.ImportFrom) and name in (alias.name for alias in node.names):
            return _file((node.module or "").removeprefix("rbench.")) or inside
    return inside or file


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from _statements(child)


def _ours(module: str) -> bool:
    return module.partition(".")[0] == "rbench"


def _file(name: str) -> Path | None:
    """The file of a module of the package, `train.loop`; None where there is none."""
    place = _PACKAGE.joinpath(*name.split(".")) if name else _PACKAGE
    found = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((file for file in found if file.is_file() and file.is_relative_to(_PACKAGE)), None)


def _name(path: Path) -> str:
    if not path.is_relative_to(_PACKAGE):
        return str(path)
    parts = path.relative_to(_PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _states_version(path: Path) -> bool:
    return path.name != "__init__.py" and declared(path) is not None


def _tree(path: Path) -> ast.Module:
    return _parsed(path, path.read_bytes())


@functools.lru_cache(maxsize=512)
def _parsed(path: Path, source: bytes) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise SuiteError(f"{path}:{line}: it is no Python: {error}") from error
