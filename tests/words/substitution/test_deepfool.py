"""The nearest boundary of a linear classifier, against plain loops and against geometry."""

from __future__ import annotations

import math

import torch

from rbench.words.substitution.word_gradients import find_nearest_boundary


def slow(logits, label, weight):
    best, nearest = math.inf, None
    for k in range(len(weight)):
        length = math.sqrt(sum((a - b) ** 2 for a, b in zip(weight[k], weight[label], strict=True)))
        if k != label and length and abs(logits[k] - logits[label]) / length < best:
            best, nearest = abs(logits[k] - logits[label]) / length, k
    return nearest


def test_it_is_the_class_with_the_least_distance():
    generator = torch.Generator().manual_seed(0)
    differs = 0
    for _ in range(50):
        weight = torch.randn(5, 3, generator=generator) * torch.tensor([[0.2], [1.0], [3.0], [0.5], [2.0]])
        z = torch.randn(7, 3, generator=generator)
        logits = z @ weight.T + torch.randn(5, generator=generator)
        labels = torch.randint(5, (7,), generator=generator)
        found = find_nearest_boundary(logits, labels, weight).tolist()
        assert found == [slow(*one, weight.tolist()) for one in zip(logits.tolist(), labels.tolist(), strict=True)]
        assert find_nearest_boundary(logits.log_softmax(dim=1), labels, weight).tolist() == found
        second = logits.scatter(1, labels.unsqueeze(1), -math.inf).argmax(dim=1).tolist()
        differs += found != second
    assert differs > 10  # the nearest boundary is not simply the second most probable class


def test_with_two_classes_it_is_the_other_one():
    weight, labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])
    assert find_nearest_boundary(torch.tensor([[3.0, 1.0], [3.0, 1.0]]), labels, weight).tolist() == [1, 0]


def test_equal_distances_and_equal_rows():
    weight = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    logits = torch.tensor([[4.0, 1.0, 1.0, 4.0]])
    assert find_nearest_boundary(logits, torch.tensor([0]), weight).tolist() == [1]  # 1 before 2; 3 has none
