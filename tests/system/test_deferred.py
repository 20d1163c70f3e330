"""Tests that a command imports libraries without what it does not use, and that this is there once it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import transformers
from packaging.version import Version

from rbench.system import deferred as module
from rbench.system.deferred import deferred

HEAVY = (
    "aiohttp boto3 datasets pandas peft scipy.optimize scipy.stats sklearn sympy torch._dynamo torch.distributed.tensor"
)


FIVE = Version(transformers.__version__).major >= 5
if FIVE:  # it uses them as it is imported
    HEAVY = HEAVY.replace("sympy", "").replace("torch.distributed.tensor", "")


def test_an_attack_imports_none_of_the_libraries_that_it_does_not_use() -> None:
    code = f"""
import importlib.util, sys
from rbench.system.deferred import deferred
with deferred():
    import rbench.recipes, rbench.encoders.classifier, sentence_transformers
    from transformers.generation import candidate_generator
    found = [name for name in {HEAVY!r}.split() if name in sys.modules]
    assert not found, found
if {FIVE}:
    raise SystemExit  # its candidate_generator imports nothing of scikit-learn at its top any more
from sklearn.metrics import roc_curve  # outside of the block it is the library itself
assert candidate_generator.roc_curve is not roc_curve
assert candidate_generator.roc_curve([0, 1], [0.1, 0.9])[0].tolist() == roc_curve([0, 1], [0.1, 0.9])[0].tolist()
"""
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.fixture
def importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a library `heavy_`, and with modules that import it."""
    (tmp_path / "heavy_.py").write_text(
        "class Thing:\n    size = 3\ndef double(x):\n    return 2 * x\nnames = {1: 2}\n"
    )
    (tmp_path / "user_.py").write_text("from heavy_ import Thing, double\n")
    (tmp_path / "eager_.py").write_text("from heavy_ import double, names\nfound = double(2), 1 in names, names[1]\n")
    (tmp_path / "careful_.py").write_text(
        "try:\n    from heavy_ import gone\nexcept ImportError:\n    gone = None\n"
        "try:\n    import nowhere_\nexcept ImportError:\n    nowhere_ = None\n"
    )
    (tmp_path / "deep_.py").write_text("import heavy_\nassert heavy_.names == {1: 2}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        module,
        "DEFERRED",
        {"user_": ("heavy_",), "eager_": ("heavy_",), "careful_": ("-heavy_", "nowhere_"), "deep_": ("heavy_",)},
    )
    for name in ("heavy_", "user_", "eager_", "careful_", "deep_"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that all are removed at the end
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_a_name_is_the_librarys_once_it_is_used(importing: Path) -> None:
    with deferred():
        import user_  # type: ignore[import-not-found]
    assert "heavy_" not in sys.modules
    assert not isinstance(1, user_.Thing) and not issubclass(int, user_.Thing)
    with pytest.raises(AttributeError):
        _ = user_.Thing.__wrapped__
    assert "heavy_" not in sys.modules, "neither question imports it"
    assert user_.double(4) == 8 and user_.Thing.size == 3
    import heavy_  # type: ignore[import-not-found]

    assert isinstance(user_.Thing(), heavy_.Thing) and isinstance(heavy_.Thing(), user_.Thing)
    assert issubclass(heavy_.Thing, user_.Thing)


def test_a_module_that_uses_the_library_while_it_is_imported_gets_it(importing: Path) -> None:
    with deferred():
        import eager_  # type: ignore[import-not-found]
    assert eager_.found == (4, True, 2) and hasattr(sys.modules["heavy_"], "Thing")


def test_what_is_refused_or_not_installed_is_not_there(importing: Path) -> None:
    with deferred():
        import careful_  # type: ignore[import-not-found]
    assert careful_.gone is None and careful_.nowhere_ is None
    assert "heavy_" not in sys.modules


def test_a_module_that_a_stand_in_does_not_serve_is_imported_as_it_is(importing: Path) -> None:
    with deferred():
        import deep_  # type: ignore[import-not-found]
    import heavy_

    assert deep_.heavy_ is heavy_ and heavy_.names == {1: 2}


def test_a_library_that_is_there_is_taken_and_nothing_stays_behind(importing: Path) -> None:
    import heavy_

    before = list(sys.meta_path)
    with deferred():
        import user_
    assert user_.Thing is heavy_.Thing and sys.modules["heavy_"] is heavy_
    assert sys.meta_path == before


def test_without_the_block_libraries_are_as_they_are(importing: Path) -> None:
    import user_

    assert user_.Thing is sys.modules["heavy_"].Thing


def test_each_entry_is_of_a_module_that_imports_what_it_names() -> None:
    """An entry of a module that exists somewhere, and no longer imports the library, does nothing and may go."""
    import importlib.util

    for name, libraries in module.DEFERRED.items():
        package = name.partition(".")[0]
        found = importlib.util.find_spec(package)
        assert found is not None and found.origin is not None
        if name == "transformers.trainer_utils" and not FIVE:
            continue
        file = Path(found.origin).parent.joinpath(*name.split(".")[1:]).with_suffix(".py")
        if not file.is_file():
            continue  # another version of the library
        text = file.read_text(encoding="utf-8")
        for library in libraries:
            top = library.lstrip("-").removeprefix("transformers.").split(".")
            assert top[0] in text or top[-1] in text or "MarianMTModel" in text, (name, library)
