"""Make TextAttack's attack loop faster without changing its outcomes (status, counted queries and final text).

Candidates that an attack's own constraints would refuse are not made (`foresee_constraints`, `EnoughWordsChanged`).

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
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

from textattack import Attack
from textattack.constraints import PreTransformationConstraint
from textattack.constraints.overlap import MaxWordsPerturbed
from textattack.goal_function_results import ClassificationGoalFunctionResult, GoalFunctionResultStatus
from textattack.goal_functions import GoalFunction
from textattack.goal_functions import UntargetedClassification as _UntargetedClassification
from textattack.search_methods import GreedyWordSwapWIR as _GreedyWordSwapWIR
from textattack.shared import AttackedText
from textattack.shared.utils import words_from_text
from textattack.transformations import Transformation, WordSwapMaskedLM

from rbench.recipes._textattack import swap_attribute
from rbench.system.changes import count_changed_words

# Part of the keys of all attacks (`USES` in build, run and binding): raising it runs every attack anew. What this file
# does must change no outcome; tests/recipes/test_equality.py compares it with TextAttack's own loop.
VERSION = 1

UNLIMITED_BATCH = 1 << 20
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
            remaining = goal.query_budget - goal.num_queries
            if texts := texts[: int(min(remaining, len(texts)))]:
                goal.model([text.tokenizer_input for text in texts])
        return super()._get_index_order(initial_text, max_len)


class UntargetedClassification(_UntargetedClassification):  # type: ignore[misc]
    """TextAttack's goal, which reads the answers to all texts of a step at once."""

    def get_results(self, attacked_text_list: list[Any], check_skip: bool = False) -> tuple[list[Any], bool]:
        """Return the results of the texts that the query budget allows, and whether it is spent."""
        if self.query_budget < float("inf"):
            attacked_text_list = attacked_text_list[: self.query_budget - self.num_queries]
        if self.target_max_score or self.maximizable or not attacked_text_list:
            results: tuple[list[Any], bool] = super().get_results(attacked_text_list, check_skip)
            return results
        self.num_queries += len(attacked_text_list)
        probabilities = self._call_model(attacked_text_list)
        wrong = (
            GoalFunctionResultStatus.SKIPPED if check_skip and self.allow_skip else GoalFunctionResultStatus.SUCCEEDED
        )
        rows = zip(
            attacked_text_list,
            probabilities.numpy(),
            probabilities.argmax(dim=1).tolist(),
            (1 - probabilities[:, self.ground_truth_output]).tolist(),
            strict=True,
        )
        return [
            ClassificationGoalFunctionResult(
                text,
                row,
                prediction,
                GoalFunctionResultStatus.SEARCHING if prediction == self.ground_truth_output else wrong,
                score,
                self.num_queries,
                self.ground_truth_output,
            )
            for text, row, prediction, score in rows
        ], self.num_queries == self.query_budget


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

    def filter_transformations(self, transformed_texts: list[Any], current_text: Any, original_text: Any = None) -> Any:
        """Return the texts that all constraints allow, sorted by text.

        TextAttack looks each text up in a cache first. No search asks for a text twice, but for those that are kept
        here, and constraints remember what takes time.
        """
        texts = [text for text in transformed_texts if differs(text, current_text)]
        for text in texts:  # a search that makes texts itself may not say where they come from
            if find_transformation(text) is None:
                set_transformation(text, self.transformation)
        for constraint in self.constraints:
            reference = original_text if constraint.compare_against_original else current_text
            if all(map(constraint.check_compatibility, {find_transformation(text) for text in texts})):
                texts = list(constraint._check_constraint_many(texts, reference)) if texts else texts
            else:
                texts = constraint.call_many(texts, reference)  # it checks some of them only
        return sorted(texts, key=lambda text: text.text)

    def _get_transformations_uncached(self, current_text: Any, original_text: Any = None, **kwargs: Any) -> list[Any]:
        # Only candidates of the original text are kept: the search asks for them twice, and for those of others once.
        is_original = "previous_attacked_text" not in current_text.attack_attrs
        if not is_original or not self.use_transformation_cache or set(kwargs) != {"indices_to_modify"}:
            return self._transform(current_text, **kwargs)
        key = (id(current_text), tuple(sorted(int(i) for i in kwargs["indices_to_modify"])))
        if key not in self._first:
            # Keeping the text alive keeps its id unique.
            self._first[key] = current_text, self._transform(current_text, **kwargs)
        return list(self._first[key][1])

    def _transform(self, current_text: Any, **kwargs: Any) -> list[Any]:
        """Return the candidates for a text.

        `Transformation.__call__` would write into the attributes of each candidate, and so compute them also for
        those that a constraint drops.
        """
        transform, constraints = self.transformation, self.pre_transformation_constraints
        texts: list[Any]
        if type(transform).__call__ is not Transformation.__call__:  # a composite one, or one of somebody's own
            texts = transform(current_text, pre_transformation_constraints=constraints, **kwargs)
            return texts
        indices = transform(current_text, pre_transformation_constraints=constraints, return_indices=True, **kwargs)
        texts = transform._get_transformations(current_text, indices)
        for text in texts:
            set_transformation(text, transform)
        return texts


def make_cached(attack: Attack) -> Attack:
    """Return a faster attack with the same components and outcomes.

    An instance of somebody's subclass of `Attack` is returned as it is, because it may rely on what is changed here.
    TextAttack's own recipes (BAE is one) add nothing to `Attack` but how they are built.
    """
    if type(attack) is not Attack and not type(attack).__module__.startswith("textattack.attack_recipes."):
        return attack
    goal: GoalFunction = attack.goal_function
    if type(goal) is _UntargetedClassification:
        goal.__class__ = UntargetedClassification  # not a new goal, which would lack what the recipe has set
    goal.use_cache = False
    goal.batch_size = UNLIMITED_BATCH
    constraints = [*attack.pre_transformation_constraints, *attack.constraints]
    return CachedAttack(goal, constraints, attack.transformation, attack.search_method)


@lru_cache(maxsize=1 << 16)
def split_words(text: str) -> tuple[str, ...]:
    """Return the words of a text, as `words_from_text` does, and remember them."""
    return (text,) if text.isascii() and text.isalnum() else tuple(words_from_text(text))


@lru_cache(maxsize=1 << 16)
def fits(part: str, several_columns: bool) -> bool:
    """Return whether TextAttack finds words in this part of a text by a plain search."""
    return (
        not CHINESE.search(part)
        # TextAttack searches the lower-case text. Letters that lower-casing makes longer (İ) shift its positions.
        and len(part.lower()) == len(part)
        and "<" not in part
        # TextAttack joins columns with this token, and may find a word such as "I" in it.
        and not (several_columns and any(word in AttackedText.SPLIT_TOKEN for word in split_words(part)))
    )


def find_window(num_words: int, index: int, window_size: float) -> tuple[int, int]:
    """Return the indices of the first and the last of the `window_size` words around `index`, as TextAttack does."""
    half_size = (window_size - 1) / 2
    if index - half_size < 0:
        return 0, int(min(window_size - 1, num_words - 1))
    if index + half_size >= num_words:
        return int(max(0, num_words - window_size)), num_words - 1
    return index - math.ceil(half_size), index + math.floor(half_size)


def words_by_column(text: AttackedText) -> list[Sequence[str]]:
    """Return the words of each column of a text."""
    columns = text._text_input.values()
    return [text.words] if len(columns) == 1 else [split_words(column) for column in columns]


T = TypeVar("T")


class computed_once(Generic[T]):
    """As functools.cached_property, without its lock, which takes most of the time in Python 3.11."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    @overload
    def __get__(self, text: None, kind: Any) -> Self: ...
    @overload
    def __get__(self, text: object, kind: Any) -> T: ...
    def __get__(self, text: Any, kind: Any) -> Any:
        if text is None:
            return self
        value = text.__dict__[self.compute.__name__] = self.compute(text)
        return value


class Splice(NamedTuple):
    """The replacement that makes a text of `parent`: the word at `place` became `new`, which has the words `words`."""

    parent: SplicedText
    place: int
    new: str
    words: tuple[str, ...]


class SplicedText(AttackedText):  # type: ignore[misc]
    """An AttackedText from which texts with a replaced word are derived cheaply.

    Most candidates are dropped by a constraint. So a derived text knows the replacement that made it, and everything
    else is computed when it is asked for.
    """

    splice: Splice | None = None
    """The replacement that made this text, if it changed one place; None for an original text."""
    transformation: Any = None
    """The transformation that made this text, until its attributes say it."""
    _words_per_input = _pos_tags = _ner_tags = None
    _simple: bool | None = None

    @computed_once
    def _text_input(self) -> OrderedDict[str, str]:
        assert self.splice is not None  # an original text gets its columns in the constructor
        parent, index, new, _ = self.splice
        start, end = parent._cut(index, self.splice.words)
        columns, offset = OrderedDict(parent._text_input), 0
        for name, part in columns.items():
            if start <= offset + len(part):
                columns[name] = part[: start - offset] + new + part[end - offset :]
                break
            offset += len(part) + 1
        return columns

    @computed_once
    def attack_attrs(self) -> dict[str, Any]:
        """What TextAttack keeps of the attack on this text."""
        assert self.splice is not None
        attributes = self.splice.parent._splice_attributes(*self.splice[1:])
        if self.transformation is not None:
            attributes["last_transformation"] = self.transformation
        return attributes

    @computed_once
    def words(self) -> list[str]:
        """All words of all columns."""
        if self.splice is None:
            return words_from_text(self.text)  # type: ignore[no-any-return]
        parent, index, _, words = self.splice
        return [*parent.words[:index], *words, *parent.words[index + 1 :]]

    @computed_once
    def text(self) -> str:
        """All columns, joined with a line break."""
        return "\n".join(self._text_input.values())

    @computed_once
    def swapped(self) -> Splice | None:
        """The replacement that made this text, if one plain word took the place of one, so that no other moved."""
        return self.splice if self.splice is not None and self.splice.words == (self.splice.new,) else None

    def replace_word_at_index(self, index: int, new_word: str) -> AttackedText:
        """Return a new text with the word at `index` replaced. `new_word` may have any number of words."""
        if isinstance(new_word, str) and 0 <= index < self.num_words and self._is_plain() and self._fits(new_word):
            return self._splice(int(index), new_word)
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
        with swap_attribute(AttackedText, "SPLIT_TOKEN", token):
            joined = super().generate_new_attacked_text(words)
        return SplicedText(joined._text_input, joined.attack_attrs)

    def all_words_diff(self, other_attacked_text: AttackedText) -> set[int]:
        """Return the indices at which the words of two texts differ."""
        return {i for i, (a, b) in enumerate(zip(self.words, other_attacked_text.words, strict=False)) if a != b}

    def text_window_around_index(self, index: int, window_size: float) -> str:
        """Return the text from the first to the last of the `window_size` words around `index`, as TextAttack does."""
        if self.swapped is None:
            window: str = super().text_window_around_index(index, window_size)
            return window
        parent, place, new, _ = self.swapped
        first, last = find_window(len(parent.words), index, window_size)
        places, text = parent._places(), parent.text
        start, end = places[first][0], places[last][1]
        if not first <= place <= last:
            return text[start:end]
        return text[start : places[place][0]] + new + text[places[place][1] : end]

    def _text_index_of_word_index(self, i: int) -> int:
        if self._is_plain():
            return self._places()[i][0]
        index: int = super()._text_index_of_word_index(i)
        return index

    # ----------------------------------------------------------------------------------------------------- splicing

    @computed_once
    def _spans(self) -> list[tuple[int, int]]:
        spans, end, text = [], 0, self.text
        for word in self.words:
            start = text.index(word, end)
            end = start + len(word)
            spans.append((start, end))
        return spans

    def _is_plain(self) -> bool:
        """Return whether each word is found by a search in the text, and stays one word if it is split alone."""
        if self._simple is None:
            spliceable = self.SPLIT_TOKEN not in self.text and all(map(self._fits, (self.text, *self.words)))
            self._simple = spliceable and all(split_words(word) == (word,) for word in self.words)
        return self._simple

    def _fits(self, part: str) -> bool:
        return fits(part, len(self._text_input) > 1)

    def _places(self) -> list[tuple[int, int]]:
        """Return the start and the end (exclusive) of each word in `text`, in characters."""
        return self._spans

    def _splice(self, index: int, new: str) -> SplicedText:
        spliced = SplicedText.__new__(SplicedText)
        words = split_words(new)
        spliced.splice = Splice(self, index, new, words)
        spliced._simple = words == (new,) or all(split_words(word) == (word,) for word in words)
        return spliced

    def _cut(self, index: int, new_words: tuple[str, ...]) -> tuple[int, int]:
        """Return the start and the end of what a replacement of the word at `index` takes out of `text`."""
        start, end = self._places()[index]
        text = self.text
        if not new_words and end < len(text):  # with a deleted word, a space is deleted too
            if index == 0:
                end += text[end] == " "
            else:
                start -= text[start - 1] == " "
        return start, end

    def _splice_attributes(self, index: int, new: str, fresh: tuple[str, ...]) -> dict[str, Any]:
        old = self.words[index]
        modified, index_map = self.attack_attrs["modified_indices"], self.attack_attrs["original_index_map"]
        if num_added := len(fresh) - 1:
            index_map = index_map.copy()
            modified = {i if i < index else i + num_added for i in modified if i != index}
            if num_added == -1:
                index_map[index_map == index] = -1
            index_map[index_map > index] += num_added
            # TextAttack treats this as an insertion before the word, so the old word moves behind the new ones.
            if num_added > 0 and old != fresh[0]:
                index_map[index_map == index] += num_added
        changed_now = set(range(index, index + len(fresh))) if old != new else set()
        attributes = {
            "newly_modified_indices": changed_now,
            "previous_attacked_text": self,
            "modified_indices": modified | changed_now,
            "original_index_map": index_map,
        }
        if "label_names" in self.attack_attrs:
            attributes["label_names"] = self.attack_attrs["label_names"]
        return attributes


def differs(text: AttackedText, other: AttackedText) -> bool:
    """Return whether two texts differ. Where one word of `other` was replaced, it tells, and the text is not made."""
    swapped = getattr(text, "swapped", None)
    if swapped is not None and swapped.parent is other:
        return bool(swapped.new != other.words[swapped.place])
    return bool(text.text != other.text)


def set_transformation(text: AttackedText, transformation: Any) -> None:
    """Note which transformation made a text, and leave its other attributes to be computed when they are asked for."""
    if isinstance(text, SplicedText) and "attack_attrs" not in vars(text):
        text.transformation = transformation
    else:
        text.attack_attrs["last_transformation"] = transformation


def find_transformation(text: AttackedText) -> Any:
    """Return the transformation that made a text; None where nothing says it."""
    if isinstance(text, SplicedText) and "attack_attrs" not in vars(text):
        return text.transformation
    return text.attack_attrs.get("last_transformation")


# -------------------------------------------------------------------------------------- candidates that nobody needs


class EnoughWordsChanged(PreTransformationConstraint):  # type: ignore[misc]
    """Once `max_words` words are changed, allows changes to these words only.

    `MaxWordsChanged` would refuse all other candidates, so they are not made.
    """

    def __init__(self, max_words: int) -> None:
        self.max_words = max_words

    def _get_modifiable_indices(self, current_text: Any) -> set[int]:
        all_indices = set(range(len(current_text.words)))
        if (
            count_changed_words(words_by_column(_find_original(current_text)), words_by_column(current_text))
            < self.max_words
        ):
            return all_indices
        return all_indices & set(current_text.attack_attrs["modified_indices"])

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
        original = _find_original(current_text)
        all_indices = set(range(current_text.num_words))
        if original.num_words != current_text.num_words:
            return all_indices
        different: set[int] = current_text.all_words_diff(original)
        limits = [float("inf")]
        if self.limit.max_percent:
            limits.append(math.ceil(current_text.num_words * self.limit.max_percent))
        if self.limit.max_num_words:
            limits.append(self.limit.max_num_words)
        return different if len(different) >= min(limits) else all_indices


def _find_original(text: Any) -> Any:
    """Return the text that the attack of `text` began with."""
    while (before := text.attack_attrs.get("previous_attacked_text")) is not None:
        text = before
    return text


def foresee_constraints(attack: Attack) -> list[PreTransformationConstraint]:
    """Return constraints that keep an attack from making candidates that its own constraints would refuse."""
    if not isinstance(attack.transformation, WordSwapMaskedLM):
        return []
    return [EnoughWordsPerturbed(c) for c in attack.constraints if type(c) is MaxWordsPerturbed]
