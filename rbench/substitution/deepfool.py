"""DeepFool's direction: towards the nearest boundary of a linear classifier.

"DeepFool: a simple and accurate method to fool deep neural networks" (Moosavi-Dezfooli et al., 2016), section 3. The
authors of the Geometry attack take this direction in their public code, in place of the gradient of the cross-entropy.
"""

from __future__ import annotations

import torch
from torch import Tensor

VERSION = 1


def nearest_boundary(logits: Tensor, labels: Tensor, weight: Tensor) -> Tensor:
    """The class whose boundary with the label's own is nearest: the least |f_k| / |w_k|, of equal ones the first.

    f_k = l_k - l_y and w_k = W_k - W_y, for all k but y. w_k is the normal of that boundary.

    Args:
        logits: (n, labels), l; log-probabilities do as well.
        labels: (n,), y.
        weight: (labels, dim), W of the linear head.

    Returns:
        (n,), whole numbers.
    """
    own = labels.unsqueeze(1)
    lengths = (weight.unsqueeze(0) - weight[labels].unsqueeze(1)).norm(dim=2)
    distances = (logits - logits.gather(1, own)).abs() / lengths
    # Two equal rows of W have no boundary, unless one of them is y's own. Neither is a class to go to.
    distances = torch.where(lengths > 0, distances, torch.full_like(distances, torch.inf)).scatter(1, own, torch.inf)
    nearest = (distances == distances.min(dim=1, keepdim=True).values).scatter(1, own, False)
    classes = torch.arange(logits.shape[1], device=logits.device).expand_as(nearest)
    return torch.where(nearest, classes, logits.shape[1]).min(dim=1).values
