from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rbench.errors import AnswerError, JobError, ResourceError
from rbench.schema import TaskSpec
from rbench.schema.victims import VictimSpec
from rbench.victims.answers import Answers
from rbench.victims.function import open_function
from rbench.victims.place import probed, source_of
from rbench.victims.remote_classifier import Asked

TASK = TaskSpec(name="films", kind="single", columns=("text",), labels=("negative", "positive"))
PAIR = TaskSpec(name="pairs", kind="nli", columns=("premise", "hypothesis"), labels=("no", "maybe", "yes"))

Opens = Callable[..., Answers]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opens:
    """Writes `mine.py` into the current folder, and opens a function of it."""
    monkeypatch.chdir(tmp_path)

    def open_it(source: str, where: str = "mine:f", task: TaskSpec = TASK, **spec: Any) -> Answers:
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
    ("source", "where", "said"),
    [
        ("", "mine", "is not `module:function`"),
        ("", "./mine.py:f", "is not `module:function`"),
        ("", "mine:", "is not `module:function`"),
        ("", "nowhere:f", "there is no module nowhere for nowhere:f.*run rbench in the folder of nowhere.py"),
        ("def g(texts): ...\ndef _h(): ...\n", "mine:f", "mine.py has no function f; it has g$"),
        ("f = 3\n", "mine:f", "mine:f is a int, not a function"),
        ("x = 1\nimport no_such_thing\n", "mine:f", r"No module named 'no_such_thing' \(.*mine.py, line 2: import no"),
        ("x = 1\ny = 1 / 0\n", "mine:f", r"mine:f cannot be imported: ZeroDivisionError: .*mine.py, line 2: y = 1 / 0"),
        ("def f(:\n", "mine:f", r"SyntaxError: .*mine.py, line 1"),
        ("raise SystemExit(3)\n", "mine:f", r"SystemExit: 3 \(.*mine.py, line 1"),
        ("", "random:f", "has the name of another module, random; rename the file"),
    ],
)
def test_what_cannot_be_imported_is_told_with_the_users_own_line(
    source: str, where: str, said: str, opened: Opens, tmp_path: Path
) -> None:
    if where == "random:f":
        (tmp_path / "random.py").write_text("def f(texts): ...\n")
    with pytest.raises(ResourceError, match=said):
        opened(source, where)


def test_only_the_texts_on_which_the_function_raises_have_no_answer(opened: Opens) -> None:
    source = "def f(texts):\n    assert 'bad' not in texts, 'what is\\nthis'\n    return [[0.5, 0.5]] * len(texts)\n"
    answers = opened(source)
    rows = answers.each([("good",), ("bad",), ("fine",)])
    assert [isinstance(row, AnswerError) for row in rows] == [False, True, False]
    assert "victim shipped, asked for 'bad': mine:f raised AssertionError: what is this (" in str(rows[1])
    assert "mine.py, line 2: assert" in str(rows[1]) and "\n" not in str(rows[1])
    assert isinstance(rows[1].__cause__, AssertionError)
    with pytest.raises(JobError, match="asked for 'bad'"):
        answers([("good",), ("bad",)])


def test_a_row_that_is_none_concerns_its_text_alone(opened: Opens) -> None:
    rows = opened(
        "def f(texts):\n    return [[0.5, 0.5] if t != 'bad' else [0.5, float('nan')] for t in texts]\n"
    ).each([("bad",), ("good",)])
    assert "asked for 'bad': it gave [0.5, nan], which has NaN" in str(rows[0])
    assert not isinstance(rows[1], AnswerError)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("[[0.5, 0.5]]", "returned 1 rows for 2 texts"),
        ("[0.5, 0.5, 0.5]", "returned 3 rows for 2 texts"),
        ("None", "returned a NoneType for 2 texts; it must return a list, array or tensor"),
        ("{'positive': 1.0, 'negative': 0.0}", "returned a dict for 2 texts"),
        ("'ab'", "returned a str for 2 texts"),
    ],
)
def test_another_number_of_rows_ends_the_job(returned: str, said: str, opened: Opens) -> None:
    with pytest.raises(JobError, match=said):
        opened(f"def f(texts):\n    return {returned}\n")([("a",), ("b",)])


def test_a_function_that_draws_at_random_is_refused_when_it_is_opened(opened: Opens) -> None:
    source = "import random\ndef f(texts):\n    return [[p, 1 - p] for p in (random.random() for t in texts)]\n"
    with pytest.raises(ResourceError, match=r"victim shipped answered '.*' twice and not alike.*model.eval\(\)"):
        opened(source).check()


def test_a_function_that_does_not_is_not(opened: Opens) -> None:
    opened(BY_LENGTH.replace("/ 10", "/ 1000")).check()


def test_a_functions_file_is_in_its_fingerprint(opened: Opens, tmp_path: Path) -> None:
    opened("def g():\n    return 0.5\n\n\ndef f(texts):\n    return [[g(), 1 - g()]] * len(texts)\n")
    spec = VictimSpec(name="shipped", function="mine:f", version="1")
    before = probed("", spec=spec, task=TASK)
    assert before == probed("", spec=spec, task=TASK) and source_of(spec) is not None
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# other words\n")
    assert before != probed("", spec=spec, task=TASK)
    assert source_of(VictimSpec(name="shipped", model="mine")) is None
    assert source_of(spec.model_copy(update={"function": "builtins:len"})) is None


def test_a_text_without_an_answer_has_no_label_where_that_is_forgiven(opened: Opens) -> None:
    source = "def f(texts):\n    assert 'bad' not in texts, 'no'\n    return [[0.2, 0.8]] * len(texts)\n"
    rows = [("good",), ("bad",), *((str(i),) for i in range(20))]
    assert Asked(opened(source), forgiving=True).classified(rows).labels.tolist() == [1, -1, *[1] * 20]
    with pytest.raises(JobError, match="asked for 'bad'"):
        Asked(opened(source)).classified(rows)


def test_a_function_that_answers_next_to_nothing_is_not_forgiven(opened: Opens) -> None:
    answers = opened("def f(texts):\n    raise ValueError('no')\n")
    with pytest.raises(JobError, match="ValueError: no"):
        Asked(answers, forgiving=True).classified([("good",), ("bad",), ("fine",)])
