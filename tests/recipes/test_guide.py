"""Tests that the examples in docs/guide-add-an-attack.md work as printed."""

from __future__ import annotations

import re
from pathlib import Path

from rbench import recipes
from rbench.config import load_attack
from rbench.config.registry import Registry
from rbench.schema import Choice
from rbench.words.resources import Resources
from tests.recipes import world

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide-add-an-attack.md"


def test_the_files_of_the_guide_are_attacks(tmp_path: Path) -> None:
    blocks = re.findall(r"```(?:yaml|python)\n# DIR/(\S+)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == ["attacks/textfooler-strict.yaml", "attacks/synonyms.py"]
    for name, text in blocks:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    registry = Registry((tmp_path,))
    strict = load_attack("textfooler-strict", registry)
    recipes.check(strict)
    assert strict.parameters["WordEmbeddingDistance.min_cos_sim"] == 0.8
    own = load_attack(Choice(name="synonyms"), registry)
    recipes.check(own)
    assert own.needs == ("synonyms", "stopwords")
    assert own.source


def test_its_own_attack_runs(tmp_path: Path, single: recipes.Victim, resources: Resources) -> None:
    """The Python block, written to a file, attacks the examples of the toy world."""
    source = re.search(r"```python\n# DIR/attacks/synonyms.py\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert source is not None
    file = tmp_path / "attacks" / "synonyms.py"
    file.parent.mkdir()
    file.write_text(source.group(1), encoding="utf-8")
    spec = load_attack("synonyms", Registry((tmp_path,)))
    built = recipes.build(spec, single, resources, world.SINGLE, path=file)
    examples = world.examples(world.SINGLE, single, 6)
    outcomes = list(recipes.run(lambda: built, examples, spec=spec, task=world.SINGLE, seed=0))
    assert len(outcomes) == 6
    assert not [outcome.error for outcome in outcomes if outcome.status == "errored"]
    assert any(outcome.status in ("succeeded", "failed") for outcome in outcomes)
