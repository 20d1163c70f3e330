from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench.errors import AnswerError, JobError, ModelChangedError, ResourceError
from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.victims.answers import AnswerClient
from rbench.victims.function import open_function
from rbench.victims.place import hash_source, probe_fingerprint
from rbench.victims.remote_classifier import RemoteClassifier

TASK = TaskSpec(name="films", kind="single", columns=("text",), labels=("negative", "positive"))
PAIR = TaskSpec(name="pairs", kind="nli", columns=("premise", "hypothesis"), labels=("no", "maybe", "yes"))

Opens = Callable[..., AnswerClient]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opens:
    """Writes `mine.py` into the current folder, and opens a function of it."""
    monkeypatch.chdir(tmp_path)

    def open_it(source: str, where: str = "mine:f", task: TaskSpec = TASK, **spec: Any) -> AnswerClient:
        (tmp_path / "mine.py").write_text(source)
        return open_function(VictimSpec(name="shipped", function=where, version="1", **spec), task)

    return open_it


BY_LENGTH = """
seen = []
def f(texts):
    seen.append(list(texts))
    return [[1 - len(text) / 10, len(text) / 10] for text in texts]
"""


def test_a_function_gets_batches_of_strings_and_its_rows_are_the_answers(opened: Opens) -> None:
    answers = opened(BY_LENGTH, batch_size=3)
    assert answers.name == "shipped" and answers.labels == TASK.labels
    found = answers([("a" * n,) for n in (1, 5, 9, 2)])
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.8, 0.2]])
    assert sys.modules["mine"].seen == [["a", "aaaaa", "aaaaaaaaa"], ["aa"]]
    assert answers([]).shape == (0, 2)


def test_texts_of_two_columns_come_as_tuples(opened: Opens) -> None:
    source = "def f(pairs):\n    return [[0, 0, 1] if p < h else [1, 0, 0] for p, h in pairs]\n"
    np.testing.assert_array_equal(opened(source, task=PAIR)([("a", "b"), ("b", "a")]), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    "returned",
    [
        "[[0.25, 0.75] for t in texts]",
        "np.array([[0.25, 0.75]] * len(texts), dtype=np.float32)",
        "[np.array([0.25, 0.75]) for t in texts]",
        "torch.tensor([[0.25, 0.75]] * len(texts), requires_grad=True)",
        "torch.tensor([[0.25, 0.75]] * len(texts), dtype=torch.bfloat16)",
        "[{'positive': 0.75, 'negative': 0.25} for t in texts]",
        "[[{'label': 'positive', 'score': 0.75}, {'label': 'negative', 'score': 0.25}] for t in texts]",
        "({'positive': 0.75, 'negative': 0.25} for t in texts)",
    ],
)
def test_rows_may_be_lists_arrays_tensors_and_mappings(returned: str, opened: Opens) -> None:
    answers = opened(f"import numpy as np, torch\ndef f(texts):\n    return {returned}\n")
    np.testing.assert_array_equal(answers([("a",), ("b",)]), [[0.25, 0.75]] * 2)


def test_methods_and_neighbouring_files_are_found_also_late(opened: Opens, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("ROW = [0.5, 0.5]\n")
    source = (
        "class C:\n    def predict_proba(self, texts):\n"
        "        from beside import ROW\n        return [ROW] * len(texts)\npipe = C()\n"
    )
    before = list(sys.path)
    assert opened(source, "mine:pipe.predict_proba")([("a",)]).tolist() == [[0.5, 0.5]]
    assert sys.path == before


@pytest.mark.parametrize(
    ("source", "where", "named"),
    [
        ("", "nowhere:f", "nowhere:f"),
        ("def g(texts): ...\n", "mine:f", "mine:f"),
        ("x = 1\nimport no_such_thing\n", "mine:f", "mine.py:2"),
        ("raise SystemExit(3)\n", "mine:f", "mine.py:1"),
    ],
)
def test_what_cannot_be_imported_is_told_with_the_users_own_line(
    source: str, where: str, named: str, opened: Opens
) -> None:
    with pytest.raises(ResourceError) as caught:
        opened(source, where)
    assert named in str(caught.value)


def test_only_the_texts_on_which_the_function_raises_have_no_answer(opened: Opens) -> None:
    source = "def f(texts):\n    assert 'bad' not in texts, 'what is\\nthis'\n    return [[0.5, 0.5]] * len(texts)\n"
    answers = opened(source)
    rows = answers.each([("good",), ("bad",), ("fine",)])
    assert [isinstance(row, AnswerError) for row in rows] == [False, True, False]
    for named in ("shipped", "bad", "AssertionError", "mine.py, line 2"):
        assert named in str(rows[1])
    assert "\n" not in str(rows[1])
    assert isinstance(rows[1].__cause__, AssertionError)
    with pytest.raises(JobError) as caught:
        answers([("good",), ("bad",)])
    assert str(caught.value) == str(rows[1])


def test_a_row_that_is_none_concerns_its_text_alone(opened: Opens) -> None:
    rows = opened(
        "def f(texts):\n    return [[0.5, 0.5] if t != 'bad' else [0.5, float('nan')] for t in texts]\n"
    ).each([("bad",), ("good",)])
    assert isinstance(rows[0], AnswerError) and "bad" in str(rows[0])
    assert not isinstance(rows[1], AnswerError)


@pytest.mark.parametrize("returned", ["[[0.5, 0.5]]", "None", "{'positive': 1.0, 'negative': 0.0}"])
def test_another_number_of_rows_ends_the_job(returned: str, opened: Opens) -> None:
    with pytest.raises(JobError) as caught:
        opened(f"def f(texts):\n    return {returned}\n")([("a",), ("b",)])
    assert "mine:f" in str(caught.value)


def test_a_function_that_draws_at_random_is_refused_when_it_is_opened(opened: Opens) -> None:
    source = "import random\ndef f(texts):\n    return [[p, 1 - p] for p in (random.random() for t in texts)]\n"
    with pytest.raises(ModelChangedError):
        opened(source).check()


def test_a_function_that_does_not_is_not(opened: Opens) -> None:
    opened(BY_LENGTH.replace("/ 10", "/ 1000")).check()


def test_a_functions_file_is_in_its_fingerprint(opened: Opens, tmp_path: Path) -> None:
    opened("def g():\n    return 0.5\n\n\ndef f(texts):\n    return [[g(), 1 - g()]] * len(texts)\n")
    spec = VictimSpec(name="shipped", function="mine:f", version="1")
    before = probe_fingerprint("", spec=spec, task=TASK)
    assert before == probe_fingerprint("", spec=spec, task=TASK) and hash_source(spec) is not None
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# other words\n")
    assert before != probe_fingerprint("", spec=spec, task=TASK)
    assert hash_source(VictimSpec(name="shipped", model="mine")) is None
    assert hash_source(spec.model_copy(update={"function": "builtins:len"})) is None


def test_a_text_without_an_answer_has_no_label_where_that_is_forgiven(opened: Opens) -> None:
    source = "def f(texts):\n    assert 'bad' not in texts, 'no'\n    return [[0.2, 0.8]] * len(texts)\n"
    rows = [("good",), ("bad",), *((str(i),) for i in range(20))]
    assert RemoteClassifier(opened(source), forgiving=True).classified(rows).labels.tolist() == [1, -1, *[1] * 20]
    with pytest.raises(JobError) as caught:
        RemoteClassifier(opened(source)).classified(rows)
    assert "bad" in str(caught.value)


def test_a_function_that_answers_next_to_nothing_is_not_forgiven(opened: Opens) -> None:
    answers = opened("def f(texts):\n    raise ValueError('no')\n")
    with pytest.raises(JobError):
        RemoteClassifier(answers, forgiving=True).classified([("good",), ("bad",), ("fine",)])
