from __future__ import annotations

import base64
import gzip
import json
from typing import Any

from rbench.report import examples
from rbench.schema import Outcome


def rows(outcome: Outcome, *, texts: bool) -> list[dict[str, Any]]:
    one = examples.AttackedExample(("pwws", "e", "clean", "t"), 0, None, outcome)
    content = json.loads(gzip.decompress(base64.b64decode(examples.pack_examples([one], texts=texts))))
    return [dict(zip(content["fields"], row, strict=True)) for row in content["rows"]]


def test_a_page_without_texts_has_the_kind_of_an_error_and_not_what_it_quotes() -> None:
    error = "Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError: cannot encode 'a licensed text'\n"
    outcome = Outcome(example_id="test:1", status="errored", original=("a licensed text",), error=error)
    (without,), (whole,) = rows(outcome, texts=False), rows(outcome, texts=True)
    assert without["reason"] == "ValueError" and "licensed" not in json.dumps(without)
    assert "a licensed text" in whole["reason"] and whole["text"] == [["a licensed text"]]


def attacked(encoder: str, strategy: str, example_id: str, status: Any) -> examples.AttackedExample:
    outcome = Outcome(example_id=example_id, status=status, original=("a text",), perturbed=("another",))
    return examples.AttackedExample(("pwws", encoder, strategy, "t"), 0, None, outcome)


def test_a_page_that_cannot_hold_all_shows_first_where_two_encoders_differ() -> None:
    alike = [attacked(encoder, "clean", f"{i}", "succeeded") for i in range(20) for encoder in ("a", "b")]
    differ = [attacked("a", "clean", "x", "succeeded"), attacked("b", "clean", "x", "failed")]
    chosen, num_differing = examples.sample_examples([*alike, *differ], 6)
    assert num_differing == 2 and chosen[-2:] == differ and len(chosen) <= 6


def test_strategies_that_differ_on_a_text_are_no_encoders_that_differ() -> None:
    alike = [attacked(encoder, "clean", f"{i}", "succeeded") for i in range(20) for encoder in ("a", "b")]
    strategies = [attacked("a", "clean", "x", "succeeded"), attacked("a", "adversarial", "x", "failed")]
    assert examples.sample_examples([*alike, *strategies], 6)[1] == 0
