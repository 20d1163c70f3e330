"""Who may import whom. The table is the one in docs/architecture.md; imports inside functions count too."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "rbench"
FREE = {"errors", "modules"}  # everything may import these
ALLOWED: dict[str, set[str]] = {
    "spec": set(),
    "search_path": set(),
    "processes": set(),
    "scratch": set(),
    "progress": {"spec"},
    "provenance": {""},
    "registry": set(),
    "versions": set(),
    "modules": {"registry", "versions"},
    "load": {"spec", "registry"},
    "lineage": {"spec"},
    "plan": {"spec", "lineage"},
    "score": {"spec"},
    "wordswap": set(),
    "vectors": set(),
    "inference": set(),
    "mini": {"spec", "registry"},
    "hub": {"spec"},
    "encoders": {"spec", "registry", "mini", "hub", "vectors", "digests", "located"},
    "tasks": {"spec", "registry", "mini", "hub"},
    "resources": {*("spec", "registry", "mini", "encoders", "hub", "inference", "vectors", "digests", "located")},
    "geometry": {"spec", "encoders", "inference", "resources", "wordswap"},
    "train": {
        "spec",
        "registry",
        "modules",
        "hub",
        "mini",
        "encoders",
        "tasks",
        "resources",
        "score",
        "wordswap",
        "geometry",
        "processes",
        "scratch",
        "located",
    },
    "evaluate": {"spec", "encoders", "tasks", "score"},
    "finetune": {
        "spec",
        "registry",
        "modules",
        "mini",
        "encoders",
        "tasks",
        "resources",
        "score",
        "wordswap",
        "geometry",
        "scratch",
    },
    "build": {"spec", "train", "tasks", "geometry"},
    "attack": {
        *(
            "spec",
            "registry",
            "modules",
            "mini",
            "encoders",
            "tasks",
            "resources",
            "score",
            "wordswap",
            "inference",
            "vectors",
            "processes",
            "located",
        )
    },
    "cache": {"spec", "scratch", "digests"},
    "digests": set(),
    "located": {"spec", "digests"},
    "store": {"spec"},
    "executors": {"spec"},
    "estimate": {"spec", "prepare", "tasks"},
    "standing": {"spec", "store", "score"},
    "tables": {"spec", "store", "score", "standing"},
    "verify": {"spec", "store", "score"},
    "texts": {"spec", "store"},
}
ANYTHING = {"stages", "prepare", "adhoc", "api", "cards", "export", "training", ""}  # "" is rbench/__init__.py
ANYTHING |= {"housekeeping"}
NOT_FOR_CLI = {"train", "finetune", "attack"}
TORCH_FREE = ["spec", "registry", "load", "lineage", "plan", "score", "store", "tables", "cli", "api"]
TORCH_FREE += ["standing", "verify", "texts"]
TORCH_FREE += ["cache", "housekeeping"]


def units() -> list[tuple[str, Path]]:
    """(unit, file) of every module: the unit is the first name below rbench."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        found.append(("" if parts == ("__init__",) else parts[0], file))
    return found


def imports(file: Path) -> set[str]:
    """Full dotted names of everything that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = file.relative_to(ROOT).with_suffix("").parts[: -node.level]
                base = ".".join((*parts, base)).rstrip(".")
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def rbench_units(file: Path) -> set[str]:
    """The units of rbench that a file imports."""
    known = {unit for unit, _ in units()}
    found = set()
    for name in imports(file):
        first, _, rest = name.partition(".")
        if first == "rbench":
            unit = rest.split(".")[0]
            found.add(unit if unit in known else "")
    return found


@pytest.mark.parametrize(("unit", "file"), units(), ids=lambda v: v.name if isinstance(v, Path) else v)
def test_a_module_imports_only_what_its_layer_may(unit: str, file: Path) -> None:
    if unit in ANYTHING:
        return
    used = rbench_units(file) - FREE - {unit}
    if unit == "cli":
        assert not used & NOT_FOR_CLI
    else:
        assert unit in ALLOWED or unit in FREE, f"{unit} is not in the table of layers"
        assert used <= ALLOWED.get(unit, set()), (
            f"{file.relative_to(ROOT)} imports {sorted(used - ALLOWED.get(unit, set()))}"
        )


@pytest.mark.parametrize(("unit", "file"), units(), ids=lambda v: v.name if isinstance(v, Path) else v)
def test_only_attack_imports_textattack(unit: str, file: Path) -> None:
    if unit != "attack":
        assert not {name for name in imports(file) if name.split(".")[0] == "textattack"}


@pytest.mark.parametrize("unit", TORCH_FREE)
def test_light_modules_do_not_load_torch(unit: str) -> None:
    heavy = "{'torch', 'transformers', 'textattack'} & set(sys.modules)"
    code = f"import rbench.{unit}, sys; bad = {heavy}; assert not bad, bad"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
