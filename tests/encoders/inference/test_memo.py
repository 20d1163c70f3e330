from __future__ import annotations

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from rbench.encoders.inference import BoundedMemo


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 40)), max_size=60), st.integers(1, 100))
def test_it_is_a_dictionary_that_forgets_the_least_recently_used(
    steps: list[tuple[bool, int, int]], limit: int
) -> None:
    memo: BoundedMemo[int, int] = BoundedMemo(limit, lambda key, value: value)
    model: OrderedDict[int, int] = OrderedDict()
    for putting, key, value in steps:
        if putting:
            memo.put(key, value)
            model.pop(key, None)
            model[key] = value
            while sum(model.values()) > limit and len(model) > 1:
                model.popitem(last=False)
        else:
            assert memo.get(key) == model.get(key)
            if key in model:
                model.move_to_end(key)
        assert memo.used == sum(model.values()) and len(memo) == len(model)
        assert memo.used <= limit or len(memo) == 1
