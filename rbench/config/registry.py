"""Finds the file behind a name in YAML: `attack: pwws` means attacks/pwws.yaml or attacks/pwws.py.

Folders are searched in order: those given with --include, those that installed packages offer (entry point group
"rbench"), then rbench's own. Names need no registration, because the files are the only list of them.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from rbench.errors import SuiteError
from rbench.system import named
from rbench.system.below import SMALL

Kind = str
"""A key of KINDS."""


class Sort(NamedTuple):
    """A kind of thing that a name can mean."""

    one: str
    """What one of them is called in messages."""
    suffixes: tuple[str, ...] = (".yaml",)
    bundled: str = ""
    """The folder of rbench's own files, below its package. Empty: the top of a checkout, or `bundled` in a wheel."""
    includes: bool = True
    """Whether YAML files of this kind may include fragments."""
    about: str = ""
    """What they are for, in a few words."""
    base: str = ""
    """The class of which a Python file of this kind defines a subclass, as `module:class`."""


YAML, PYTHON = ".yaml", ".py"
KINDS: dict[Kind, Sort] = {
    "suites": Sort("suite", includes=False, about="encoders x tasks x attacks x seeds to run"),
    "attacks": Sort("attack", (YAML, PYTHON), about="changes texts until a classifier errs"),
    "tasks": Sort("task", bundled="tasks", about="texts with labels, to fine-tune on and to attack"),
    "encoders": Sort("encoder", bundled="encoders", about="turns a text into a vector"),
    "victims": Sort("victim", bundled="victims", about="a classifier that exists, to be attacked as it is"),
    "judges": Sort(
        "judge", bundled="judges", about="says of all successes what people are asked of some (rbench judge proxy)"
    ),
    "resources": Sort(
        "resource set", bundled="words/resources", about="word vectors, synonyms and models behind attacks"
    ),
    "contrast": Sort("contrast set", bundled="contrast", about="test texts with small edits that change the label"),
    "objectives": Sort("objective", (PYTHON,), "train/objectives", about="a way to train an encoder (rbench train)"),
    "finetune": Sort("finetune strategy", (PYTHON,), "train/finetune", about="makes a victim of an encoder and a task"),
    "measures": Sort(
        "measure",
        (PYTHON,),
        "measures",
        about="a number or table of what attacks found",
        base="rbench.measures:Measure",
    ),
    "metrics": Sort(
        "metric",
        (PYTHON,),
        "metrics",
        about="a number with a value for each text, wherever --metric is",
        base="rbench.metrics:Metric",
    ),
    "noise": Sort(
        "kind of noise",
        (PYTHON,),
        "noise",
        about="changes texts as typing does, by degree (measure noise)",
        base="rbench.noise:NoiseKind",
    ),
    "figures": Sort("figure", (PYTHON,), "report/figures", about="a drawing of a run (rbench figure)"),
}
"""All kinds, by the name of the sub-folder that holds their files. A new kind needs one new line here."""

OWN = "; a file of your own is found in the folder that --include names"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*", re.ASCII)
"""The form of names: no separators and no leading dot or underscore. So no name leaves its folder or is `__init__`."""

FRAGMENT = re.compile(rf"_{NAME.pattern}", re.ASCII)
"""The form of names of fragments, which YAML files include (rbench.config.files). No entry has such a name."""

_PACKAGE = Path(__file__).resolve().parent.parent


class Root(NamedTuple):
    """A folder that holds sub-folders named after kinds, and where it comes from, in words."""

    folder: Path
    origin: str


class Registry:
    """Finds files and modules of every kind by name; earlier folders hide later.

    The folders of a kind are read once, when a name of that kind is first looked up. Only a new registry sees files
    that were added later.

    Raises SuiteError where an included folder does not exist or holds none of the sub-folders.
    """

    def __init__(self, include: Sequence[Path | str] = ()) -> None:
        folders: Any = [include] if isinstance(include, str | Path) else include
        sound = isinstance(folders, Sequence) and not isinstance(folders, bytes)
        if not sound or not all(isinstance(one, str | Path) and "\0" not in str(one) for one in folders):
            raise SuiteError(f"include={include!r}: expected a list of folders")
        self.include = tuple(_included(Path(folder)) for folder in folders)
        self._files: dict[tuple[Kind, bool], dict[str, list[tuple[Root, Path]]]] = {}

    @cached_property
    def roots(self) -> tuple[Root, ...]:
        """All folders except rbench's own, in order of precedence."""
        return (*self.include, *map(_offered, _points(tuple(sys.path))))

    def folders(self, kind: Kind) -> list[Root]:
        """Return the existing folders that are searched for `kind`, first to last."""
        searched = [*(Root(root.folder / kind, root.origin) for root in self.roots), Root(_bundled(kind), "rbench")]
        return [root for root in searched if root.folder.is_dir()]

    def names(self, kind: Kind) -> list[str]:
        """Return all valid names of `kind`, sorted."""
        return sorted(self._index(kind))

    def path(self, kind: Kind, name: str) -> Path:
        """Return the file behind a name.

        Raises SuiteError where there is none, with the nearest names, or where one folder has two files of that name.
        """
        return self._find(kind, name)[0]

    def origin(self, kind: Kind, name: str) -> str:
        """Say where a name comes from: `rbench`, `package X` or `--include DIR`. Raises as `path` does."""
        return self._find(kind, name)[1]

    def is_bundled(self, kind: Kind, name: str) -> bool:
        """Whether the file behind a name is rbench's own. Raises as `path` does."""
        return self.path(kind, name).parent == _bundled(kind)

    def fragments(self, kind: Kind) -> list[str]:
        """Return the names of all fragments that files of `kind` can include, sorted."""
        return sorted(self._index(kind, fragments=True))

    def fragment(self, kind: Kind, name: str, beside: Path) -> Path | None:
        """Return the fragment that the file `beside` of `kind` includes by this name, or None where there is none.

        A fragment in the folder of `beside` comes first. So a user's fragments do not change rbench's own files.
        """
        found = [path for _, path in self._index(kind, fragments=True).get(name, ())]
        own = [path for path in found if path.parent == beside.parent]
        return next(iter(own + found), None)

    def _find(self, kind: Kind, name: str) -> tuple[Path, str]:
        found = self._index(kind).get(name) if isinstance(name, str) else None
        if found is None and isinstance(name, str) and name in self._index(kind, fragments=True):
            raise SuiteError(
                f"{name} is a fragment, not a whole {KINDS[kind].one}. "
                f"Name one whose file says `include: [{name}]`, or write such a file"
            )
        if found is None:
            raise SuiteError(unknown(KINDS[kind].one, name, self.names(kind), f" (`rbench list {kind}` shows all)"))
        root, path = found[0]
        if len(here := [other.name for of, other in found if of is root]) > 1:
            raise SuiteError(
                f"{KINDS[kind].one} {name} is ambiguous: {root.folder} holds {' and '.join(here)}; remove one of them"
            )
        return path, root.origin

    def _index(self, kind: Kind, *, fragments: bool = False) -> dict[str, list[tuple[Root, Path]]]:
        """Return the files of a kind, or its fragments, by name, in order of precedence."""
        if (kind, fragments) not in self._files:
            index: dict[str, list[tuple[Root, Path]]] = {}
            form, suffixes = (FRAGMENT, (YAML,)) if fragments else (NAME, KINDS[kind].suffixes)
            for root in self.folders(kind) if KINDS[kind].includes or not fragments else ():
                for path in sorted(root.folder.iterdir()):
                    if path.suffix in suffixes and form.fullmatch(path.stem) and path.is_file():
                        index.setdefault(path.stem, []).append((root, path))
            self._files[kind, fragments] = index
        return self._files[kind, fragments]


MOST_LISTED = 30
"""The most valid names that an error lists."""


def unknown(what: str, name: object, valid: Iterable[str], see: str = "") -> str:
    """Word the error for an unknown name: `unknown task "mrr"; did you mean mr?`, or with valid names and `see`.

    Where nothing is near, the name may be that of a file that the user has: the error says how one is found.
    """
    valid = sorted(valid)
    shown = str(name)
    start = f'unknown {what} "{shown if len(shown) <= 60 else shown[:57] + "..."}"'
    close = nearest(shown, valid)
    if close:
        return f"{start}; did you mean {' or '.join(close)}?"
    more = len(valid) - MOST_LISTED
    listed = ", ".join(valid[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    own = OWN if what in {sort.one for kind, sort in KINDS.items() if kind != "suites"} else ""  # these have paths
    return f"{start}; valid are: {listed}{see}{own}" if valid else f"{start}; there are none{own}"


def nearest(name: str, valid: Iterable[str], n: int = 3) -> list[str]:
    """Return up to `n` valid names that are most similar to `name`, ignoring case, best first."""
    folded: dict[str, str] = {}
    for item in valid:
        folded.setdefault(item.lower(), item)
    if name.lower() in folded:
        return [folded[name.lower()]]
    return [folded[match] for match in difflib.get_close_matches(name[:100].lower(), folded, n=n)]


def load_module(path: Path, source: bytes | None = None) -> ModuleType:
    """Import a Python file by its path, under a module name that is unique to its path and content.

    The code that runs is `source`, the file's content as the caller read it, or without it the file's present content.
    Callers pass only files from folders that the user chose: --include, installed packages and rbench itself.

    Raises SuiteError with file and line, where the file cannot be read or the import fails.
    """
    source = read_source(path) if source is None else source
    name = f"rbench_file_{path.stem}_{hashlib.sha256(str(path.resolve()).encode() + source).hexdigest()[:16]}"
    name = re.sub(r"\W", "_", name)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # the suffix is .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # Python's loader is not used: it may run a compiled copy of older content, since it compares time and size.
        exec(compile(source, path, "exec"), module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise SuiteError(
            f"{path}:{line_of(error, path)}: importing it fails: {type(error).__name__}: {error}"
        ) from error
    return module


def read_source(path: Path) -> bytes:
    """Return the content of a Python file. Raises SuiteError where it cannot be read."""
    try:
        return named.read(path, SMALL, packed=False)
    except OSError as error:
        raise SuiteError(f"{path}: it cannot be read: {error.strerror or error}") from error


def line_of(error: BaseException, path: Path, otherwise: int = 1) -> int:
    """Return the last line of a Python file in an exception's traceback, or `otherwise` where it has none."""
    if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno:
        return error.lineno
    line, trace = otherwise, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _bundled(kind: Kind) -> Path:
    """Return rbench's own folder of `kind`."""
    if KINDS[kind].bundled:
        return _PACKAGE / KINDS[kind].bundled
    wheel = _PACKAGE / "bundled" / kind
    checkout = _PACKAGE.parent / kind
    return checkout if not wheel.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file() else wheel


def _included(folder: Path) -> Root:
    if not folder.is_dir():
        raise SuiteError(f"--include {folder}: there is no such folder")
    if not any((folder / kind).is_dir() for kind in KINDS):
        raise SuiteError(f"--include {folder}: it has none of the sub-folders {', '.join(KINDS)}")
    return Root(folder, f"--include {folder}")


@cache
def _points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of all packages on the search path, by name.

    They are read once: `entry_points` opens the metadata of every installed package, which takes longer than all else
    that a registry does.
    """
    return tuple(sorted(entry_points(group="rbench"), key=lambda point: point.name))


def _offered(point: EntryPoint) -> Root:
    """Return the folder that an installed package offers by its entry point.

    A `module` offers its own folder and is not imported. `module:attribute` is imported and holds the path.
    """
    package = point.dist.name if point.dist is not None else point.name
    try:
        if point.attr:
            folder = Path(point.load())
        else:
            spec = importlib.util.find_spec(point.module)
            if spec is None:
                raise ModuleNotFoundError(f"no module named {point.module}")
            folder = Path(next(iter(spec.submodule_search_locations or ()), None) or Path(str(spec.origin)).parent)
    except Exception as error:
        raise SuiteError(
            f"the installed package {package} offers files to rbench (entry point {point.name} = {point.value}), but "
            f"{type(error).__name__}: {error}. Repair or uninstall {package}."
        ) from error
    return Root(folder, f"package {package}")


def search_path(flag_values: Iterable[Path | str], env_name: str) -> tuple[Path, ...]:
    """Return the folders to search, first to last, each once, with `~` expanded.

    An empty variable counts as unset. An empty entry in it is skipped and never means the current folder.
    """
    entries = (entry.strip() for entry in os.environ.get(env_name, "").split(os.pathsep))
    found = [Path(value).expanduser() for value in (*flag_values, *filter(None, entries))]
    return tuple(dict.fromkeys(found))
