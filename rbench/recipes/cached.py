"""Make TextAttack's attack loop faster without changing its outcomes (status, counted queries and final text).

Candidates that an attack's own constraints would refuse are not made (`foreseen`, `EnoughWordsChanged`).

`Victim` caches answers over all examples, so the goal function's own cache, which is cleared after each example, is
switched off. All candidates of a step form one batch. TextAttack's PWWS makes the candidates of each word twice and
queries them word by word; here they are made once, and the victim is queried for all of them in one batch before the
search asks.

For each candidate TextAttack rebuilds the whole text: it searches every word, and splits each word and the result into
words again. A replacement changes one place, so in a `SplicedText` the text, its words and their positions are changed
only there. The result has the same attributes as TextAttack's (`tests/recipes/test_text.py`). Texts for which this is
not certain use TextAttack's own code, for example Chinese, which is segmented as a whole.
"""

from __future__ import annotations

import math
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from textattack import Attack
from textattack.constraints import PreTransformationConstraint
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.goal_functions import GoalFunction
from textattack.search_methods import GreedyWordSwapWIR as _GreedyWordSwapWIR
from textattack.shared import AttackedText
from textattack.shared.utils import words_from_text
from textattack.transformations import WordSwapMaskedLM

from rbench.recipes._textattack import swapped
from rbench.system.changes import words_changed

VERSION = 1

ONE_BATCH = 1 << 20
CHINESE = re.compile("[\u4e00-\u9fff]")
"""TextAttack's own test for Chinese text, which has to be segmented."""

_PRIVATE = range(0xE000, 0xF900)
"""Unicode's private use area: characters without a meaning, which occur in no word."""


class GreedyWordSwapWIR(_GreedyWordSwapWIR):  # type: ignore[misc]
    """TextAttack's search. For weighted saliency (PWWS) it queries the victim for all candidates in one batch first.

    The search then finds the answers in the victim's cache. Queries are counted, and a query budget is spent, in
    TextAttack's order.
    """

    ask_ahead = False

    def _get_index_order(self, initial_text: Any, max_len: int = -1) -> Any:
        if self.ask_ahead and self.wir_method == "weighted-saliency":
            _, indices = self.get_indices_to_order(initial_text)
            if self.truncate_words_to is not None:
                indices = sorted(indices)[: self.truncate_words_to]
            # The order is that of the search, so that a query budget cuts both off at the same text.
            texts = [initial_text.replace_word_at_index(index, self.unk_token) for index in indices]
            for index in indices:
                texts += self.get_transformations(initial_text, original_text=initial_text, indices_to_modify=[index])
            goal = self.goal_function
            left = goal.query_budget - goal.num_queries
            if texts := texts[: int(min(left, len(texts)))]:
                goal.model([text.tokenizer_input for text in texts])
        return super()._get_index_order(initial_text, max_len)


class CachedAttack(Attack):  # type: ignore[misc]
    """An attack that keeps the candidates for the original text until the example is done."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._first: dict[tuple[int, tuple[int, ...]], tuple[Any, list[Any]]] = {}
        if isinstance(self.search_method, GreedyWordSwapWIR):
            # Random transformations draw from a shared generator: making candidates ahead would change their draws.
            self.search_method.ask_ahead = self.use_transformation_cache

    def attack(self, example: Any, ground_truth_output: Any) -> Any:
        """Attack one example, which is a string, columns by name, or an AttackedText."""
        spliced = SplicedText(example) if isinstance(example, str | OrderedDict) else example
        return super().attack(spliced, ground_truth_output)

    def clear_cache(self, recursive: bool = True) -> None:
        """Clear the caches of one example."""
        self._first.clear()
        super().clear_cache(recursive)

    def _get_transformations_uncached(self, current_text: Any, original_text: Any = None, **kwargs: Any) -> list[Any]:
        start = "previous_attacked_text" not in current_text.attack_attrs
        if not start or not self.use_transformation_cache or set(kwargs) != {"indices_to_modify"}:
            texts: list[Any] = super()._get_transformations_uncached(current_text, original_text, **kwargs)
            return texts
        key = (id(current_text), tuple(sorted(int(i) for i in kwargs["indices_to_modify"])))
        if key not in self._first:
            made = super()._get_transformations_uncached(current_text, original_text, **kwargs)
            self._first[key] = (current_text, made)  # keeping the text alive keeps its id unique
        return list(self._first[key][1])


def cached(attack: Attack) -> Attack:
    """Return a faster attack with the same components and outcomes.

    An instance of a subclass of `Attack` is returned as it is, because it may rely on what is changed here.
    """
    if type(attack) is not Attack:
        return attack
    goal: GoalFunction = attack.goal_function
    goal.use_cache = False
    goal.batch_size = ONE_BATCH
    constraints = [*attack.pre_transformation_constraints, *attack.constraints]
    return CachedAttack(goal, constraints, attack.transformation, attack.search_method)


@lru_cache(maxsize=1 << 16)
def split(text: str) -> tuple[str, ...]:
    """Return the words of a text, as `words_from_text` does, and remember them."""
    return tuple(words_from_text(text))


def columns_of(text: AttackedText) -> list[Sequence[str]]:
    """Return the words of each column of a text."""
    columns = text._text_input.values()
    return [text.words] if len(columns) == 1 else [split(column) for column in columns]


class SplicedText(AttackedText):  # type: ignore[misc]
    """An AttackedText from which texts with a replaced word are derived cheaply."""

    def __init__(
        self, text_input: Any, attack_attrs: dict[str, Any] | None = None, words: list[str] | None = None
    ) -> None:
        self._joined: str | None = None
        self._spans: list[tuple[int, int]] | None = None
        self._simple: bool | None = None
        self._known = words
        super().__init__(text_input, attack_attrs)

    @property
    def words(self) -> list[str]:
        """All words of all columns."""
        if self._known is None:
            self._known = words_from_text(self.text)
        return self._known

    @property
    def text(self) -> str:
        """All columns, joined with a line break."""
        if self._joined is None:
            self._joined = "\n".join(self._text_input.values())
        return self._joined

    def replace_word_at_index(self, index: int, new_word: str) -> AttackedText:
        """Return a new text with the word at `index` replaced. `new_word` may have any number of words."""
        if isinstance(new_word, str) and 0 <= index < self.num_words and self._plain() and self._fits(new_word):
            return self._spliced(int(index), new_word)
        return super().replace_words_at_indices([index], [new_word])

    def replace_words_at_indices(self, indices: Sequence[int], new_words: Sequence[str]) -> AttackedText:
        """Return a new text with several words replaced."""
        if len(indices) == len(new_words) == 1:
            return self.replace_word_at_index(indices[0], new_words[0])
        return super().replace_words_at_indices(indices, new_words)

    def generate_new_attacked_text(self, new_words: Iterable[str]) -> SplicedText:
        """Return a new text with each word replaced by that of `new_words`, as TextAttack does.

        TextAttack joins the columns with the token `<SPLIT>` and splits them there again. A text that contains the
        token, or gets it by a replacement (`<film>` with SPLIT for a word), would be split in the wrong place. So if a
        text or new word has a `<`, the columns are joined with a character that occurs in none of them.
        """
        words = list(new_words)
        parts = [*self._text_input.values(), *words]
        token = self.SPLIT_TOKEN
        if any(token[0] in part for part in parts):
            token = next(char for char in map(chr, _PRIVATE) if not any(char in part for part in parts))
        with swapped(AttackedText, "SPLIT_TOKEN", token):
            made = super().generate_new_attacked_text(words)
        return SplicedText(made._text_input, made.attack_attrs)

    def all_words_diff(self, other_attacked_text: AttackedText) -> set[int]:
        """Return the indices at which the words of two texts differ."""
        return {i for i, (a, b) in enumerate(zip(self.words, other_attacked_text.words, strict=False)) if a != b}

    def _text_index_of_word_index(self, i: int) -> int:
        if self._plain():
            return self._places()[i][0]
        index: int = super()._text_index_of_word_index(i)
        return index

    # ----------------------------------------------------------------------------------------------------- splicing

    def _plain(self) -> bool:
        """Return whether each word is found by a search in the text, and stays one word if it is split alone."""
        if self._simple is None:
            self._simple = self.SPLIT_TOKEN not in self.text and all(map(self._fits, (self.text, *self.words)))
            self._simple = self._simple and all(split(word) == (word,) for word in self.words)
        return self._simple

    def _fits(self, part: str) -> bool:
        several = len(self._text_input) > 1
        return (
            not CHINESE.search(part)
            # TextAttack searches the lower-case text. Letters that lower-casing makes longer (İ) shift its positions.
            and len(part.lower()) == len(part)
            and "<" not in part
            # TextAttack joins columns with this token, and may find a word such as "I" in it.
            and not (several and any(word in self.SPLIT_TOKEN for word in split(part)))
        )

    def _places(self) -> list[tuple[int, int]]:
        """Return the start and the end (exclusive) of each word in `text`, in characters."""
        if self._spans is None:
            spans, end, text = [], 0, self.text
            for word in self.words:
                start = text.index(word, end)
                end = start + len(word)
                spans.append((start, end))
            self._spans = spans
        return self._spans

    def _spliced(self, index: int, new: str) -> SplicedText:
        start, end = self._places()[index]
        fresh = split(new)
        text = self.text
        if not fresh and end < len(text):  # with a deleted word, a space is deleted too
            if index == 0:
                end += text[end] == " "
            else:
                start -= text[start - 1] == " "
        words = [*self.words[:index], *fresh, *self.words[index + 1 :]]
        made = SplicedText(self._columns(start, end, new), self._attributes(index, new, fresh), words)
        made._simple = all(split(word) == (word,) for word in fresh)
        return made

    def _columns(self, start: int, end: int, new: str) -> OrderedDict[str, str]:
        columns, offset = OrderedDict(self._text_input), 0
        for name, part in columns.items():
            if start <= offset + len(part):
                columns[name] = part[: start - offset] + new + part[end - offset :]
                break
            offset += len(part) + 1
        return columns

    def _attributes(self, index: int, new: str, fresh: tuple[str, ...]) -> dict[str, Any]:
        old = self.words[index]
        modified, places = set(self.attack_attrs["modified_indices"]), self.attack_attrs["original_index_map"].copy()
        if longer := len(fresh) - 1:
            modified = {i if i < index else i + longer for i in modified if i != index}
            if longer == -1:
                places[places == index] = -1
            places[places > index] += longer
            # TextAttack treats this as an insertion before the word, so the old word moves behind the new ones.
            if longer > 0 and old != fresh[0]:
                places[places == index] += longer
        newly = set(range(index, index + len(fresh))) if old != new else set()
        attributes = {
            "newly_modified_indices": newly,
            "previous_attacked_text": self,
            "modified_indices": modified | newly,
            "original_index_map": places,
        }
        if "label_names" in self.attack_attrs:
            attributes["label_names"] = self.attack_attrs["label_names"]
        return attributes


# -------------------------------------------------------------------------------------- candidates that nobody needs


class EnoughWordsChanged(PreTransformationConstraint):  # type: ignore[misc]
    """Once `max_words` words are changed, allows changes to these words only.

    `MaxWordsChanged` would refuse all other candidates, so they are not made.
    """

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:
        everything = set(range(len(current_text.words)))
        if words_changed(columns_of(_original(current_text)), columns_of(current_text)) < self.max_words:
            return everything
        return everything & set(current_text.attack_attrs["modified_indices"])

    def extra_repr_keys(self) -> list[str]:
        return ["max_words"]


class EnoughWordsPerturbed(PreTransformationConstraint):  # type: ignore[misc]
    """Once as many words differ from the original as `limit` allows, allows changes to these words only.

    `limit` is TextAttack's MaxWordsPerturbed (40% in BERT-Attack). It would refuse all other candidates, so the masked
    LM is not asked for them. This holds for transformations that replace one word by one word.
    """

    def __init__(self, limit: MaxWordsPerturbed) -> None:
        self.limit = limit

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:
        original = _original(current_text)
        everything = set(range(current_text.num_words))
        if original.num_words != current_text.num_words:
            return everything
        different: set[int] = current_text.all_words_diff(original)
        most = [float("inf")]
        if self.limit.max_percent:
            most.append(math.ceil(current_text.num_words * self.limit.max_percent))
        if self.limit.max_num_words:
            most.append(self.limit.max_num_words)
        return different if len(different) >= min(most) else everything


def _original(text: Any) -> Any:
    """Return the text that the attack of `text` began with."""
    while (before := text.attack_attrs.get("previous_attacked_text")) is not None:
        text = before
    return text


def foreseen(attack: Attack) -> list[PreTransformationConstraint]:
    """Return constraints that keep an attack from making candidates that its own constraints would refuse."""
    if not isinstance(attack.transformation, WordSwapMaskedLM):
        return []
    return [EnoughWordsPerturbed(c) for c in attack.constraints if type(c) is MaxWordsPerturbed]
