"""What is made for English or Latin letters is named before any work, where a task has other letters."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rbench import api
from rbench.plan.scripts import latin_share, script_notes
from rbench.schema import ResourceSource
from tests.scripts import text_of, words_of


def test_the_share_of_latin_letters() -> None:
    assert latin_share(["café, naïve!"]) == 1.0
    assert latin_share(["ab дом"]) == 0.4
    assert latin_share(["12 !", "…"]) is None


def planned(folder: Path, script: str | None, **more: Any) -> list[str]:
    (folder / "told").mkdir(parents=True)
    texts = [text_of(script, own) for own in words_of(script)] if script else [f"film number {i}" for i in range(70)]
    for split, own in (("train", texts[:40]), ("validation", texts[40:50]), ("test", texts[50:])):
        rows = "".join(f"{json.dumps({'text': text, 'label': i % 2})}\n" for i, text in enumerate(own))
        (folder / "told" / f"{split}.jsonl").write_text(rows)
    (folder / "include" / "tasks").mkdir(parents=True)
    task = "{name: told, title: Told, kind: single, columns: [text], labels: [bad, good]}"
    (folder / "include" / "tasks" / "told.yaml").write_text(task)
    suite = {"name": "s", "encoders": ["mini-static"], "tasks": ["told"], "finetune": ["probe"], "resources": "mini"}
    options = api.Options(data=(folder,), include=(folder / "include",), out=folder / "run")
    return list(api.plan({**suite, **more}, options).notes)


@pytest.mark.parametrize("script", ["Hindi", "Chinese"])
def test_a_plan_names_the_noise_that_is_not_for_its_script(script: str, tmp_path: Path) -> None:
    noise = {"evaluate": [{"noise": {"kinds": ["typos", "markup", "homophones"], "num_examples": 5}}]}
    (said,) = [note for note in planned(tmp_path / "task", script, **noise) if "not Latin" in note]
    assert said.startswith("told: 100% of its letters are not Latin")
    assert said.endswith("noise typos (Latin letters), homophones (English)"), "markup is for any script"
    assert not [note for note in planned(tmp_path / "english", None, **noise) if "not Latin" in note]


def test_resources_of_english_are_named_with_what_uses_them() -> None:
    task = SimpleNamespace(name="told")
    data = SimpleNamespace(sizes={"test": 1}, examples={"test": [SimpleNamespace(texts=("पानी",))]})
    sources = {
        "synonyms": ResourceSource(kind="wordnet"),
        "stopwords": ResourceSource(kind="nltk"),
        "word_vectors": ResourceSource(kind="folder"),
    }
    loaded: Any = SimpleNamespace(
        tasks={"told": task},
        suite=SimpleNamespace(tasks=("told",)),
        attacks={
            "pwws": SimpleNamespace(needs=("synonyms", "stopwords")),
            "textfooler": SimpleNamespace(needs=("word_vectors", "stopwords")),
            "deepwordbug": SimpleNamespace(needs=()),
        },
        strategies={},
        measures={},
        resources=SimpleNamespace(sources=sources),
        modules={},
    )
    (said,) = script_notes(loaded, {"told": data})  # type: ignore[dict-item]
    assert said.endswith("attack pwws (synonyms, stop words); attack textfooler (stop words)")
