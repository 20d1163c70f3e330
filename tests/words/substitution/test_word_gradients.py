"""Tests that word pieces map to their words, and that a word's norm is that of its pieces' mean gradient."""

from __future__ import annotations

import math

import torch

from rbench.words.substitution.word_gradients import compute_norms, pieces_to_words, pool_by_word


def test_pieces_find_their_words_in_both_columns():
    # "un believ able!" / "so good": pieces with and without the leading space in their offsets
    offsets = [(0, 0), (0, 2), (2, 8), (8, 12), (12, 13), (0, 0), (0, 2), (2, 7), (0, 0)]
    columns = [None, 0, 0, 0, 0, None, 1, 1, None]
    spans = [(0, 0, 12), (1, 0, 2), (1, 3, 7)]
    assert pieces_to_words(offsets, columns, spans) == [-1, 0, 0, 0, -1, -1, 1, 2, -1]


def test_a_sign_that_touches_a_word_is_none_of_its_pieces():
    assert pieces_to_words([(0, 1), (1, 5), (5, 6)], [0, 0, 0], [(0, 1, 5)]) == [-1, 0, -1]


def test_word_norms_are_norms_of_means():
    gradients = torch.tensor([[9.0, 9.0], [1.0, 2.0], [5.0, 6.0], [0.0, 2.0]])
    norms = pool_by_word(gradients, [-1, 0, 0, 2], 4)
    assert norms.tolist() == [5.0, -math.inf, 2.0, -math.inf]


def test_l1_norms_are_sums_of_absolute_values_over_all_pieces():
    gradients = torch.tensor([[9.0, 9.0], [1.0, -2.0], [-5.0, 6.0], [0.0, 2.0]])
    norms = pool_by_word(gradients, [-1, 0, 0, 2], 4, "l1")
    assert norms.tolist() == [14.0, -math.inf, 2.0, -math.inf]


class Encoded(dict):
    """A tokenizer's answer for two texts of three and two pieces."""

    def sequence_ids(self, row: int) -> list[int | None]:
        return [[None, 0, 0], [0, None]][row]


def test_norms_of_a_batch_are_those_of_its_texts():
    encoded = Encoded(offset_mapping=[[(0, 0), (0, 2), (2, 4)], [(0, 3), (0, 0)]])
    gradients = [torch.tensor([[9.0, 9.0], [1.0, 0.0], [5.0, 8.0]]), torch.tensor([[0.0, 2.0], [7.0, 7.0]])]
    norms = compute_norms(encoded, gradients, [[(0, 0, 4)], [(0, 0, 3), (0, 4, 9)]])
    assert [one.tolist() for one in norms] == [[5.0], [2.0, -math.inf]]
