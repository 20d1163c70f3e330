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
from typing import NamedTuple

from rbench.errors import SuiteError
from rbench.system import named
from rbench.system.below import SMALL_BYTES
from rbench.system.own_code import failing_in

Kind = str
"""A key of KINDS."""


class KindInfo(NamedTuple):
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
KINDS: dict[Kind, KindInfo] = {
    "suites": KindInfo("suite", includes=False, about="encoders x tasks x attacks x seeds to run"),
    "attacks": KindInfo(
        "attack",
        (YAML, PYTHON),
        about="changes texts until a classifier errs",
        base="rbench.attacks:AttackMethod",
    ),
    "tasks": KindInfo("task", bundled="tasks", about="texts with labels, to fine-tune on and to attack"),
    "encoders": KindInfo("encoder", bundled="encoders", about="turns a text into a vector"),
    "victims": KindInfo("victim", bundled="victims", about="a classifier that exists, to be attacked as it is"),
    "judges": KindInfo(
        "judge", bundled="judges", about="says of all successes what people are asked of some (rbench judge proxy)"
    ),
    "resources": KindInfo(
        "resource set", bundled="words/resources", about="word vectors, synonyms and models behind attacks"
    ),
    "contrast": KindInfo("contrast set", bundled="contrast", about="test texts with small edits that change the label"),
    "objectives": KindInfo(
        "objective",
        (PYTHON,),
        "train/objectives",
        about="a way to train an encoder (rbench train)",
        base="rbench.train.objectives:TrainingObjective",
    ),
    "finetune": KindInfo(
        "finetune strategy",
        (PYTHON,),
        "train/finetune",
        about="makes a victim of an encoder and a task",
        base="rbench.train.finetune:FinetuneStrategy",
    ),
    "measures": KindInfo(
        "measure",
        (PYTHON,),
        "measures",
        about="a number or table of what attacks found",
        base="rbench.measures:Measure",
    ),
    "metrics": KindInfo(
        "metric",
        (PYTHON,),
        "metrics",
        about="a number with a value for each text, wherever --metric is",
        base="rbench.metrics:Metric",
    ),
    "noise": KindInfo(
        "kind of noise",
        (PYTHON,),
        "noise",
        about="changes texts as typing does, by degree (measure noise)",
        base="rbench.noise:NoiseKind",
    ),
    "edits": KindInfo(
        "kind of edit",
        (PYTHON,),
        "edits",
        about="changes what a text says, in one place (measures two_sided and triples)",
        base="rbench.edits:EditKind",
    ),
    "figures": KindInfo(
        "figure",
        (PYTHON,),
        "report/figures",
        about="a drawing of a run (rbench figure)",
        base="rbench.report.figures:RunFigure",
    ),
}
"""All kinds, by the name of the sub-folder that holds their files. A new kind needs one new line here."""

OWN_SUITE = "; a suite of your own is given as a path, for instance ./my-suite.yaml"
OWN_FILE = "; a file of your own is found in the folder that --include names"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*", re.ASCII)
"""The form of names: no separators and no leading dot or underscore. So no name leaves its folder or is `__init__`."""

FRAGMENT = re.compile(rf"_{NAME.pattern}", re.ASCII)
"""The form of names of fragments, which YAML files include (rbench.config.files). No entry has such a name."""

_PACKAGE = Path(__file__).resolve().parent.parent


class RegistryFolder(NamedTuple):
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
        folders = [include] if isinstance(include, str | Path) else include
        self.include = tuple(_check_included(Path(folder)) for folder in folders)
        self._files: dict[tuple[Kind, bool], dict[str, list[tuple[RegistryFolder, Path]]]] = {}

    @cached_property
    def roots(self) -> tuple[RegistryFolder, ...]:
        """All folders except rbench's own, in order of precedence."""
        return (*self.include, *map(_offered_folder, _entry_points(tuple(sys.path))))

    def folders(self, kind: Kind) -> list[RegistryFolder]:
        """Return the existing folders that are searched for `kind`, first to last."""
        searched = [
            *(RegistryFolder(root.folder / kind, root.origin) for root in self.roots),
            RegistryFolder(_bundled_folder(kind), "rbench"),
        ]
        return [root for root in searched if root.folder.is_dir()]

    def names(self, kind: Kind) -> list[str]:
        """Return all valid names of `kind`, sorted."""
        return sorted(self._files_by_name(kind))

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
        return self.path(kind, name).parent == _bundled_folder(kind)

    def fragments(self, kind: Kind) -> list[str]:
        """Return the names of all fragments that files of `kind` can include, sorted."""
        return sorted(self._files_by_name(kind, fragments=True))

    def fragment(self, kind: Kind, name: str, beside: Path) -> Path | None:
        """Return the fragment that the file `beside` of `kind` includes by this name, or None where there is none.

        A fragment in the folder of `beside` comes first. So a user's fragments do not change rbench's own files.
        """
        paths = [path for _, path in self._files_by_name(kind, fragments=True).get(name, ())]
        beside_paths = [path for path in paths if path.parent == beside.parent]
        return next(iter(beside_paths + paths), None)

    def _find(self, kind: Kind, name: str) -> tuple[Path, str]:
        files = self._files_by_name(kind).get(name) if isinstance(name, str) else None
        if files is None and isinstance(name, str) and name in self._files_by_name(kind, fragments=True):
            raise SuiteError(
                f"{name} is a fragment, not a whole {KINDS[kind].one}. Name one whose file says `include: [{name}]`, "
                "or write such a file"
            )
        if files is None:
            raise SuiteError(
                unknown_message(KINDS[kind].one, name, self.names(kind), f" (`rbench list {kind}` shows all)")
            )
        root, path = files[0]
        if len(same_folder := [other.name for other_root, other in files if other_root is root]) > 1:
            raise SuiteError(
                f"{KINDS[kind].one} {name} is ambiguous: {root.folder} holds {' and '.join(same_folder)}; "
                "remove one of them"
            )
        return path, root.origin

    def _files_by_name(self, kind: Kind, *, fragments: bool = False) -> dict[str, list[tuple[RegistryFolder, Path]]]:
        """Return the files of a kind, or its fragments, by name, in order of precedence."""
        if (kind, fragments) not in self._files:
            index: dict[str, list[tuple[RegistryFolder, Path]]] = {}
            form, suffixes = (FRAGMENT, (YAML,)) if fragments else (NAME, KINDS[kind].suffixes)
            for root in self.folders(kind) if KINDS[kind].includes or not fragments else ():
                for path in sorted(root.folder.iterdir()):
                    if path.suffix in suffixes and form.fullmatch(path.stem) and path.is_file():
                        index.setdefault(path.stem, []).append((root, path))
            self._files[kind, fragments] = index
        return self._files[kind, fragments]


MOST_LISTED = 30
"""The most valid names that an error lists."""


def unknown_message(what: str, name: object, valid: Iterable[str], see: str = "") -> str:
    """Word the error for an unknown name: `unknown task "mrr"; did you mean mr?`, or with valid names and `see`.

    Where nothing is near, the name may be that of a file that the user has: the error says how one is found.
    """
    valid = sorted(valid)
    shown = str(name)
    start = f'unknown {what} "{shown if len(shown) <= 60 else shown[:57] + "..."}"'
    close = nearest_names(shown, valid)
    if close:
        return f"{start}; did you mean {' or '.join(close)}?"
    more = len(valid) - MOST_LISTED
    listed = ", ".join(valid[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    own_hint = OWN_SUITE if what == "suite" else OWN_FILE if what in {sort.one for sort in KINDS.values()} else ""
    return f"{start}; valid are: {listed}{see}{own_hint}" if valid else f"{start}; there are none{own_hint}"


def nearest_names(name: str, valid: Iterable[str], n: int = 3) -> list[str]:
    """Return up to `n` valid names that are most similar to `name`, ignoring case, best first."""
    by_lower_case: dict[str, str] = {}
    for item in valid:
        by_lower_case.setdefault(item.lower(), item)
    if name.lower() in by_lower_case:
        return [by_lower_case[name.lower()]]
    return [by_lower_case[match] for match in difflib.get_close_matches(name[:100].lower(), by_lower_case, n=n)]


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
    # Registered before it runs, as Python does: dataclasses and pydantic look their module up in sys.modules.
    sys.modules[name] = module
    with failing_in(path, SuiteError, also=(SystemExit,)):
        # Python's loader is not used: it may run a compiled copy of older content, since it compares time and size.
        exec(compile(source, path, "exec"), module.__dict__)
    return module


def read_source(path: Path) -> bytes:
    """Return the content of a Python file. Raises OSError where it cannot be read."""
    return named.read(path, SMALL_BYTES, packed=False)


def _bundled_folder(kind: Kind) -> Path:
    """Return rbench's own folder of `kind`."""
    if KINDS[kind].bundled:
        return _PACKAGE / KINDS[kind].bundled
    wheel = _PACKAGE / "bundled" / kind
    checkout = _PACKAGE.parent / kind
    return checkout if not wheel.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file() else wheel


def _check_included(folder: Path) -> RegistryFolder:
    if not any((folder / kind).is_dir() for kind in KINDS):
        raise SuiteError(f"--include {folder}: it has none of the sub-folders {', '.join(KINDS)}")
    return RegistryFolder(folder, f"--include {folder}")


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of all packages on the search path, by name.

    They are read once: `entry_points` opens the metadata of every installed package, which takes longer than all else
    that a registry does.
    """
    return tuple(sorted(entry_points(group="rbench"), key=lambda point: point.name))


def _offered_folder(point: EntryPoint) -> RegistryFolder:
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
                raise ModuleNotFoundError(f"there is no module {point.module}")
            folder = Path(next(iter(spec.submodule_search_locations or ()), None) or Path(str(spec.origin)).parent)
    except Exception as error:
        raise SuiteError(
            f"the installed package {package} offers files to rbench (entry point {point.name} = {point.value}), but "
            f"{type(error).__name__}: {error}. Repair or uninstall {package}."
        ) from error
    return RegistryFolder(folder, f"package {package}")


def search_path(flag_values: Iterable[Path | str], env_name: str) -> tuple[Path, ...]:
    """Return the folders to search, first to last, each once, with `~` expanded.

    An empty variable counts as unset. An empty entry in it is skipped and never means the current folder.
    """
    entries = (entry.strip() for entry in os.environ.get(env_name, "").split(os.pathsep))
    folders = [Path(value).expanduser() for value in (*flag_values, *filter(None, entries))]
    return tuple(dict.fromkeys(folders))
