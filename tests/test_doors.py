"""One model, one answer: a classifier has the same outcomes by whichever door it comes, and an encoder its vectors.

The rows are layouts of models, the columns the doors through which rbench is given them. docs/layouts.md lists the
same layouts, and a test holds it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import transformers

import rbench
from rbench import recipes as _ready  # noqa: F401  (before textattack is imported)
from rbench.errors import RbenchError
from tests.encoders.layouts import LAYOUTS as ENCODERS
from tests.victims.layouts import LABELS, LAYOUTS, REFUSED, TEXTS, Layout
from tests.victims.server import Server

PAGE = Path(__file__).resolve().parents[1] / "docs" / "layouts.md"
DOORS = ("folder", "pair", "pipeline", "TextAttack's wrapper", "endpoint")
EVERYDAY = ("BERT", "GPT-2, no padding token", "Llama, texts end with the token that would pad")
"""The rest is nightly. `encoders/test_fitting.py` has padding on the left, T5, positions, and token types not read."""
ROWS = [name if name in EVERYDAY else pytest.param(name, marks=pytest.mark.nightly) for name in LAYOUTS]


class Shipped(NamedTuple):
    """A layout, its folder, and a server that answers with the probabilities of a forward by hand."""

    layout: Layout
    folder: Path
    server: Server

    def through(self, door: str) -> Any:
        """What a user gives rbench."""
        model, tokenizer = self.layout.model, self.layout.tokenizer
        match door:
            case "folder":
                return str(self.folder)
            case "pair":
                return model, tokenizer
            case "pipeline":
                return transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
            case "TextAttack's wrapper":
                from textattack.models.wrappers import HuggingFaceModelWrapper

                return HuggingFaceModelWrapper(model, tokenizer)
        body = {"inputs": "{texts}"}
        return {"endpoint": {"url": self.server.url, "body": body, "batch_size": 8}, "version": "1"}


Ship = Callable[[Layout], Shipped]


@pytest.fixture
def ship(tmp_path: Path) -> Iterator[Ship]:
    servers: list[Server] = []

    def save(layout: Layout) -> Shipped:
        layout.model.save_pretrained(tmp_path)
        layout.tokenizer.save_pretrained(tmp_path)
        servers.append(Server(lambda body: layout.served(body["inputs"])))
        return Shipped(layout, tmp_path, servers[0])

    yield save
    for server in servers:
        server.close()


def attacked(victim: Any, labels: list[int], **more: Any) -> list[tuple[Any, ...]]:
    options = {"resources": "mini", "progress": False, "backend": "torch", "label_names": LABELS, **more}
    result = rbench.attack(victim, TEXTS, labels, "pwws", **options)
    assert not [one.error for one in result.outcomes if one.error]
    return [(one.status, one.num_queries, one.perturbed, one.original_prediction) for one in result.outcomes]


@pytest.mark.parametrize("name", ROWS)
def test_a_classifier_has_one_answer_through_every_door(name: str, ship: Ship) -> None:
    layout = LAYOUTS[name]()
    shipped, logits = ship(layout), layout.by_hand(TEXTS)
    labels: list[int] = logits.argmax(1).tolist()
    assert (logits[0] - logits[1]).abs().max() > 1e-2, "weights by which all texts are alike would show nothing"
    by_hand = attacked(layout.by_hand, labels, scores="logits")
    before = layout.state()
    for door in DOORS:
        given = shipped.through(door)
        wrapper = rbench.textattack_wrapper(given, device="cpu", backend="torch", label_names=LABELS)
        answers = wrapper(list(TEXTS))
        expected = logits.softmax(1) if door == "endpoint" else logits
        torch.testing.assert_close(
            answers, expected, atol=1e-5, rtol=1e-5, msg=lambda said, door=door: f"{door}: {said}"
        )
        one_process = {"workers": 1} if door == "folder" else {}
        assert attacked(given, labels, **one_process) == by_hand, door
    assert layout.state() == before, "what a user gives stays as it is"


def test_attacks_of_this_table_succeed_and_fail() -> None:
    layout = LAYOUTS["BERT"]()
    found = attacked(layout.by_hand, layout.by_hand(TEXTS).argmax(1).tolist(), scores="logits")
    assert [one[0] for one in found] == ["succeeded", "failed"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_attacked_is_refused_in_one_line_at_every_door(name: str, ship: Ship) -> None:
    make, said = REFUSED[name]
    shipped = ship(make())
    for door in DOORS:
        if said[door]:
            with pytest.raises(RbenchError, match=said[door]) as caught:
                attacked(shipped.through(door), [0] * len(TEXTS))
            assert "\n" not in str(caught.value), door


@pytest.mark.parametrize("layouts", [LAYOUTS, REFUSED, ENCODERS], ids=["classifiers", "refused", "encoders"])
def test_the_page_lists_the_layouts(layouts: Iterable[str]) -> None:
    listed = "\n".join(f"- {name}" for name in layouts)
    assert f"\n\n{listed}\n\n" in PAGE.read_text(encoding="utf-8"), (
        f"docs/layouts.md: write this list there\n\n{listed}"
    )
