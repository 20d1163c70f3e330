"""Characters: changes that a reader may not see, found by differential evolution (BadCharacters).

At most `budget` places of a text are changed in one way:

- `homoglyphs`: a Cyrillic or Greek letter in place of a Latin one that looks like it;
- `invisible`: a character of no width between two letters;
- `reorderings`: two letters stored in the other order, between controls that show them in the right one;
- `deletions`: a letter and a backspace behind it.

Whether a reader sees nothing depends on the software and the font, and nothing here measures it for a text: outcomes
have no similarity. docs/noise.md says what was measured. Most programs show a backspace as a box, so `deletions` are
visible nearly everywhere; `reorderings` need software that follows Unicode's bidirectional algorithm.

TextAttack's BadCharacters2021 leaves its goal open, needs that of the paper's tasks, and does not stop at a success.
This is its search with the goal of all attacks here, another class; it asks a generation at once and ends at the first
success. Places are inside words, so that protected columns are left as they are (ours). The population of 32
and the 10 generations are the paper's; the look-alikes are those of the noise `lookalikes`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rbench.attacks import AttackMethod
from rbench.noise.lookalikes import LIKE
from rbench.noise.zerowidth import INVISIBLE
from rbench.schema import Strict
from rbench.schema.common import Positive

if TYPE_CHECKING:
    from textattack import Attack
    from textattack.search_methods import SearchMethod

    from rbench.schema import TaskSpec

VERSION = 1

PDF, LRO, RLO, LRI, PDI = "\u202c", "\u202d", "\u202e", "\u2066", "\u2069"
"""Unicode's controls: pop, overrides to the right and to the left, isolate to the right, and pop of an isolate."""


class Options(Strict):
    """Which changes, how many, and how long is searched."""

    way: Literal["homoglyphs", "invisible", "reorderings", "deletions"] = "homoglyphs"
    budget: Positive = 3
    """At most so many places are changed; the paper has 1 to 5."""
    population: Positive = 32
    """How many texts a generation has, at least."""
    generations: Positive = 10


class Way(NamedTuple):
    """One way to change a word at a place."""

    fits: Callable[[str, int], bool]
    """Whether a word can be changed at an index."""
    span: int
    """How many characters are replaced there."""
    made: Callable[[str, float], str]
    """Returns what takes the place of the characters there, by a number in 0..1."""


def _inside(word: str, i: int) -> bool:
    return i > 0 and word[i - 1].isalpha() and word[i].isalpha()


def _swapped(pair: str, choice: float) -> str:
    """Return two letters in the other order, and the controls that show them in theirs (the paper, appendix)."""
    first, second = pair
    return f"{LRO}{LRI}{RLO}{LRI}{second}{PDI}{LRI}{first}{PDI}{PDF}{PDI}{PDF}"


WAYS = {
    "homoglyphs": Way(lambda word, i: word[i] in LIKE, 1, lambda found, c: LIKE[found][int(c * len(LIKE[found]))]),
    "invisible": Way(_inside, 0, lambda found, choice: INVISIBLE[int(choice * len(INVISIBLE))]),
    "reorderings": Way(lambda word, i: word[i : i + 2].isalpha() and len(word) > i + 1, 2, _swapped),
    "deletions": Way(_inside, 0, lambda found, choice: ascii_lowercase[int(choice * 26)] + "\b"),
}


def changed(word: str, way: Way, at: dict[int, float]) -> str:
    """Return a word changed at some indices, by the number of each. Of places that overlap the first counts."""
    made, end = "", 0
    for i, choice in sorted(at.items()):
        if i >= end:
            made += word[end:i] + way.made(word[i : i + way.span], choice)
            end = i + way.span
    return made + word[end:]


def text_of(original: Any, places: Sequence[tuple[int, int]], vector: Any, way: Way) -> Any:
    """Return the text of a vector: for each place an index, below 0 for none, and a number in 0..1."""
    at: dict[int, dict[int, float]] = defaultdict(dict)
    for place, choice in vector.reshape(-1, 2):
        if place >= 0:
            word, i = places[min(int(place), len(places) - 1)]
            at[word][i] = min(float(choice), 1 - 1e-9)
    if not at:
        return original
    new = [changed(original.words[word], way, own) for word, own in at.items()]
    return original.replace_words_at_indices(list(at), new)


class CharacterAttack(AttackMethod[Options]):
    title = "Characters that may not be seen"
    reference = "boucher2022bad"
    queries_per_word = 20.0

    def build(self, victim: Any, resources: Any, options: Options, task: TaskSpec) -> Attack:
        """Return the attack on a victim of `rbench.attack`; it is the same for every task."""
        from textattack import Attack
        from textattack.goal_functions import UntargetedClassification
        from textattack.transformations import WordSwap

        class Anywhere(WordSwap):  # type: ignore[misc]
            """Says which words may be changed. The search makes the texts."""

            def _get_transformations(self, current_text: Any, indices_to_modify: Any) -> list[Any]:
                return []

        return Attack(UntargetedClassification(victim), [], Anywhere(), evolution(options))


def evolution(options: Options) -> SearchMethod:
    """Return the search. Nothing of TextAttack is imported before an attack is built."""
    import numpy as np
    from scipy.optimize import differential_evolution
    from textattack.goal_function_results import GoalFunctionResultStatus
    from textattack.search_methods import SearchMethod

    way = WAYS[options.way]

    class EndedError(Exception):
        """Ends the search: a text flipped, or the query budget is spent."""

    class Evolution(SearchMethod):  # type: ignore[misc]
        """Differential evolution of `budget` places, each with a number that decides what is put there."""

        is_black_box = True

        def perform_search(self, initial_result: Any) -> Any:
            original, self.best = initial_result.attacked_text, initial_result
            _, words = self.get_indices_to_order(original)
            places = [(w, i) for w in words for i in range(len(original.words[w])) if way.fits(original.words[w], i)]
            if not places:
                return initial_result
            bounds = [(-1.0, float(len(places))), (0.0, 1.0)] * options.budget

            def scores(vectors: Any) -> Any:
                return self._asked(original, [text_of(original, places, vector, way) for vector in vectors.T])

            members = max(math.ceil(options.population / len(bounds)), 1)
            # Scores of refused texts are infinite, and scipy takes their differences.
            with suppress(EndedError), np.errstate(invalid="ignore"):
                differential_evolution(
                    scores,
                    bounds,
                    maxiter=options.generations,
                    popsize=members,
                    polish=False,
                    vectorized=True,
                    updating="deferred",
                    seed=int(np.random.randint(2**31)),
                )
            return self.best

        def _asked(self, original: Any, texts: Sequence[Any]) -> Any:
            """Return what is to be small, (len(texts),). Each distinct text is asked once; infinite where refused."""
            distinct = {text.text: text for text in texts if text.text != original.text}
            allowed = self.filter_transformations(list(distinct.values()), original, original)
            results, over = self.get_goal_results(allowed) if allowed else ([], False)
            found = {result.attacked_text.text: -float(result.score) for result in results}
            self.best = max([self.best, *results], key=lambda one: (_flipped(one), one.score))
            if over or _flipped(self.best):
                raise EndedError
            return np.array([found.get(text.text, math.inf) for text in texts])

    def _flipped(result: Any) -> bool:
        return bool(result.goal_status == GoalFunctionResultStatus.SUCCEEDED)

    return Evolution()
