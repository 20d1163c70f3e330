"""Put words of a successful text back, as an option of any attack: the text that remains needs each word it changed.

A greedy search keeps every word that it changed on its way, also those which later ones made superfluous. Here, after
a success, each changed word is put back alone; of the texts that still succeed the one that does the victim the most
harm is kept, and its words are tried in turn, until none succeeds. These queries are counted, and the query budget ends
them. Texts have to pass the attack's constraints, as all texts of it. A text of which the number of words changed stays
as it is.
"""

from __future__ import annotations

from typing import Any

from textattack import Attack
from textattack.goal_function_results import GoalFunctionResultStatus

from rbench.recipes.cached import words_by_column

VERSION = 1


def putting_back(attack: Attack) -> Attack:
    """Return the attack, whose search from now on puts words back after each success."""
    search = attack.search_method
    perform_search = search.perform_search

    def perform_and_put_back(initial_result: Any) -> Any:
        return _with_words_put_back(search, perform_search(initial_result), initial_result.attacked_text)

    search.perform_search = perform_and_put_back
    return attack


def _with_words_put_back(search: Any, result: Any, original: Any) -> Any:
    over = False
    while not over and _succeeded(result) and (texts := _with_one_word_back(result.attacked_text, original)):
        allowed = search.filter_transformations(texts, result.attacked_text, original)
        answers, over = search.get_goal_results(allowed) if allowed else ([], False)
        successes = [answer for answer in answers if _succeeded(answer)]
        if not successes:
            return result
        result = max(successes, key=lambda answer: answer.score)
    return result


def _with_one_word_back(text: Any, original: Any) -> list[Any]:
    """Return the text with each changed word put back alone; none where at most one word is changed, or words moved."""
    if list(map(len, words_by_column(text))) != list(map(len, words_by_column(original))):
        return []
    changed = [i for i, (new, old) in enumerate(zip(text.words, original.words, strict=True)) if new != old]
    return [text.replace_word_at_index(i, original.words[i]) for i in changed] if len(changed) > 1 else []


def _succeeded(result: Any) -> bool:
    return bool(result.goal_status == GoalFunctionResultStatus.SUCCEEDED)
