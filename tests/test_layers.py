"""Who may import whom, and why. Lazy imports and those for types count too.

The wings are those that docs/architecture.md lists, in its order: data flows down the list, so a module imports from
its own wing and from those above it. Whoever adds a wing adds a line to that table; nothing here has a name of it.

A package is one module, its `__init__`: `from rbench.schema import Job` is an arrow to `schema`, `from
rbench.schema.common import Share` is one to `schema.common`. Python runs a package's `__init__` before any of its
modules; that is no arrow.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import pytest

import rbench
from rbench import api

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rbench"
NARROWER: dict[str, tuple[set[str], str]] = {
    "plan.planner": (
        {"schema", "plan.lineage", "plan.order"},
        "a plan is computed of a loaded suite alone, without files and models",
    ),
    "store.runs": ({"schema", "system"}, "a RUN is read without the suite and the files of which it was made"),
    "store.weights": ({"schema", "system"}, "the cache is read without them, too"),
}
"""Modules and packages that may import less than their wing, with the reason."""
APART = {"papers", "gate", "audit", "leaderboard"}
"""Wings that only `api` imports, so that each can be understood, and removed, alone."""
NETWORKS = {"encoders", "words", "recipes", "train", "victims"}
"""Wings whose modules may load torch as they are imported. Of all others none does, except for what measures share
(`measures._*`), so that `rbench --help`, `list`, `status` and `table` answer at once."""
HEAVY = {"torch", "transformers", "textattack", "matplotlib"}


def modules() -> list[tuple[str, Path]]:
    """(dotted name below rbench, file) of every module; a package's __init__.py has the package's name."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), file))
    return found


NAMES = {name for name, _ in modules()}


def wing(name: str) -> str:
    return name.partition(".")[0]


@cache
def parsed(file: Path) -> ast.Module:
    """A file of the package, parsed once for all tests of this kind."""
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> set[str]:
    """Full dotted names of everything that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = file.relative_to(ROOT).with_suffix("").parts[: -node.level]
                base = ".".join((*parts, base)).rstrip(".")
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


@cache
def ours(file: Path) -> set[str]:
    """The modules of rbench that a file imports, by their names below rbench; `import rbench` is for its version."""
    below = {name.removeprefix("rbench.") for name in imports(file) if name.startswith("rbench.")}
    return {name if name in NAMES else name.rpartition(".")[0] or name for name in below}


def listed() -> list[str]:
    """The wings in the order in which docs/architecture.md lists them. `rbench` itself, whose name is "", is none."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)


def test_the_page_on_the_shape_lists_all_wings() -> None:
    assert sorted(listed()) == sorted({wing(name) for name in NAMES} - {""})


def test_no_test_module_imports_another() -> None:
    """What tests share lies in modules that hold no tests, so a test file can be changed or removed alone."""
    for file in (ROOT / "tests").rglob("*.py"):
        for module, names in re.findall(r"^ *from (tests[\w.]*) import (.*)", file.read_text(encoding="utf-8"), re.M):
            modules = {*re.findall(r"\btest_\w+", f"{module} {names}")}
            assert modules <= {file.stem}, f"{file} imports {modules}"  # a script that a test starts may import its own


def test_wings_have_names_of_their_own() -> None:
    """A package with the name of a function that rbench offers would hide it, and tools pass over some names."""
    wings = {wing(name) for name in NAMES if "." in name}
    passed_over = {"build", "dist", "lib", "spec", "test", "tests", "target", "var", "parts", "eggs", "sdist"}
    assert not wings & {*rbench.__all__, *passed_over}


def test_modules_import_only_from_their_wing_and_from_those_above() -> None:
    order = listed()
    above = {name: {*order[: place + 1]} for place, name in enumerate(order)} | {"": {"api"}}
    beyond = {name: sorted({wing(other) for other in ours(file)} - above[wing(name)]) for name, file in modules()}
    assert {name: found for name, found in beyond.items() if found} == {}


@pytest.mark.parametrize("narrow", NARROWER)
def test_some_modules_may_import_less_than_their_wing(narrow: str) -> None:
    allowed, why = NARROWER[narrow]
    files = [file for name, file in modules() if name == narrow or name.startswith(f"{narrow}.")]
    used = {other for file in files for other in ours(file)}
    beyond = {other for other in used if not {other, wing(other)} & {*allowed, "errors", "masking"}}
    assert files
    assert not {other for other in beyond if other != narrow and not other.startswith(f"{narrow}.")}, why


def circle(graph: Mapping[str, Collection[str]]) -> list[str]:
    """The modules of one circle, in order, the first again at the end; empty where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    found = circle({name: ours(file) - {name} for name, file in modules()})
    assert found == []


@pytest.mark.parametrize(
    "way",
    [
        "from rbench.score import sts",
        "import rbench.score.sts",
        "def late():\n    from rbench.score.sts import scores",
        "if TYPE_CHECKING:\n    from rbench.score.sts import scores",
    ],
)
def test_a_circle_is_found_in_whatever_way_it_is_imported(way: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(way)
    assert ours(file) == {"score.sts"}
    found = circle({"tables.a": ours(file), "score.sts": {"score.b"}, "score.b": {"tables.a"}})
    assert set(found) == {"tables.a", "score.sts", "score.b"} and found[0] == found[-1]
    assert circle({"tables.a": ours(file), "score.sts": {"score.b"}}) == []


@pytest.mark.parametrize("apart", sorted(APART))
def test_wings_apart_are_imported_by_the_api_alone(apart: str) -> None:
    users = {wing(name) for name, file in modules() if apart in map(wing, ours(file))}
    assert users - {apart} == {"api"}


def test_only_recipes_imports_textattack() -> None:
    users = {wing(name) for name, file in modules() if "textattack" in {one.split(".")[0] for one in imports(file)}}
    assert users == {"recipes"}


LOAD = """
from rbench.config import list_recipes, load
from rbench.config.registry import Registry
load("table1", registry=Registry())
list_recipes()
"""


def test_light_modules_and_loading_a_suite_load_neither_torch_nor_matplotlib() -> None:
    """One process imports all of them, one after the other, and names the first that loads anything heavy."""
    light = {name for name in NAMES if name and wing(name) not in NETWORKS and not name.startswith("measures._")}
    names = sorted(f"rbench.{name}" for name in light - {"__main__"})
    code = f"import importlib, sys\nfor name in {names}:\n    importlib.import_module(name)\n"
    check = f"heavy = {HEAVY} & set(sys.modules)\n"
    code += f"    {check}    assert not heavy, (name, heavy)\n{LOAD}{check}assert not heavy, heavy"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


BELOW = {
    *("store", "tables", "report.figures", "report", "api"),
    *(
        "execution.cluster.membership",
        "system.checkpoints",
        "system.scratch",
        "execution.cluster.child",
    ),
    *(
        "system.speed",
        "encoders.inference.backends",
        "encoders.adapters",
        "execution.given",
        "execution.run",
        "execution.spread",
    ),
}
"""Wings and modules that work with what lies in a RUN or in the cache. They open it with `rbench.system.below`."""
OPENS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "rmtree", "copyfile", "copytree"}
OPENS |= {"move", "rglob", "symlink_to", "hardlink_to", "makedirs", "removedirs"}
ELSEWHERE = {
    "(files(package) / folder / name).read_text",
    *("info.read_text", "Path('/proc/sys/kernel/random/boot_id').read_text", "Path(f'/proc/{pid}/stat').read_text"),
    *("module.open", "measure.open", "loaded.modules['objectives', train.objective].open"),  # a module of Python
    "find('measures', name).open",  # the same
    "target.open",
    *("where.open", "path.open", "path.write_text", "Path(page).open", "self._path.open"),  # files that the user names
    "(where / 'rbench.json').read_text",  # a model's folder, which is the user's
    "shutil.rmtree",  # in `growing`: a new folder beside the one that the user names
    *("file.open", "path.rglob"),  # after `SafeFolder.files` has found them, and to count bytes
}
"""What else these modules open."""


def test_what_lies_in_a_run_or_the_cache_is_opened_in_one_way() -> None:
    found = set()
    for name, file in modules():
        if {name, wing(name)} & BELOW:
            calls = {ast.unparse(node.func) for node in ast.walk(parsed(file)) if isinstance(node, ast.Call)}
            found |= {(name, call) for call in calls if call.rpartition(".")[2] in OPENS}
    unsafe = {(name, call) for name, call in found if call not in ELSEWHERE}
    assert not unsafe, "what they open may be a link: use rbench.system.below, or say in ELSEWHERE why not"


ONE_ATTACK = """
encoders: [mini-bert-packaged]
tasks: [mini-sentiment]
attacks: [textfooler]
num_examples: 3
resources: mini
training: {epochs: 1, max_train: 64}
"""
COMMAND = """
import sys
from rbench.cli import main
try:
    sys.argv = ["rbench", "run", "one.yaml", "--out", "RUN", "--workers", "1"]
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
there = sorted(name for name in sys.modules if name.partition(".")[0] == "rbench")
print(*there, file=open("there", "w"))
"""


@pytest.mark.nightly
def test_a_run_of_one_attack_executes_no_module_without_need(tmp_path: Path) -> None:
    """A whole command, from an empty cache to its tables and its report; what functions import counts, too."""
    (tmp_path / "one.yaml").write_text(ONE_ATTACK)
    environment = {**os.environ, "RBENCH_CACHE": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, "-c", COMMAND], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert (tmp_path / "RUN" / "report.html").is_file() and [*(tmp_path / "RUN" / "tables").glob("*.tex")]
    there = {name.removeprefix("rbench.") for name in (tmp_path / "there").read_text().split()}
    assert {"train.finetune.clean", "recipes.victim", "metrics.asr", "tables.latex", "report.html"} <= there
    # What a kind of task is, is known of all kinds; what does the work of one is imported for its tasks alone.
    ranking = {name for name in there if "ranking" in name or "ndcg" in name} - {"schema.kinds.ranking"}
    of_others = {"score.people", "store.judged", "schema.judged", "system.hub", "encoders.static", "report.figures"}
    assert not ranking | (of_others & there) | {name for name in there if name.startswith("execution.cluster.exec")}


def test_names_of_the_api_are_those_that_its_table_says() -> None:
    """mypy reads the imports, Python the table; both are of one order."""
    tree = parsed(PACKAGE / "api" / "__init__.py")
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    read = [
        (alias.asname or alias.name, node.module, alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert [
        (name, f"rbench.{api._MODULE_OF[name]}", api._NAME_IN_MODULE.get(name, name)) for name in api.__all__
    ] == read
    assert all(getattr(api, name) is getattr(importlib.import_module(module), there) for name, module, there in read)
    assert not {*api.__all__} & {file.stem for file in (PACKAGE / "api").glob("*.py")}, "a module would hide it"
