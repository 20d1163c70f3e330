"""Settings of momentum contrast that must fit the number of steps, and the test for a head that has not learned.

All three are ours: the ADCL paper prints no momentum, no learning rate of pre-training, and no such test. This module
does not import torch.

*Momentum.* The key encoder is a running mean of the query encoder. A mean with momentum m forgets what lies more than
about 1 / (1 - m) steps back; after S steps a share of m^S of it is still the start. The start is a head with random
weights, and keys of a random head are nearly all alike. With m = 0.999 and S = 133 steps 88% of it would be left at the
end. `momentum` takes 1 / (1 - m) = S / 10, so that m^S is e^-10 or less. MoCo's 0.999 is never exceeded: it is reached
at 10,000 steps. For the same reason a queue should be full within the first tenth of the steps: its size is at most a
tenth of the steps times the batch size. Encoder files state it.

*Learning rate of the heads.* Adam moves a weight by about the learning rate in a step, whatever the size of the
gradient. The learning rate rises and falls linearly, so its mean is half of its peak: in S steps no weight moves by
more than about rate * S / 2. PyTorch draws the weights of a head on vectors of d numbers from U(-1 / sqrt(d),
1 / sqrt(d)). A head can leave its start behind only if rate * S / 2 >= 1 / sqrt(d). `head_learning_rate` is the least
rate for which this holds, 2 / (S sqrt(d)), and never below the encoder's.
"""

from __future__ import annotations

import math

KEPT = 10.0
"""The key encoder follows with a time constant of 1 / KEPT of all steps."""
LARGEST_MOMENTUM = 0.999
LEAST_STEPS = 10
"""A head is not judged after fewer steps: `momentum` gives ten updates or fewer no running mean at all."""
LEAST_TEXTS = 20
"""With fewer held-out texts nothing is judged: four of 20 are a fifth, which a head that learns may fail to reach."""


def momentum(steps: int) -> float:
    """Return m for a training in which the key encoder is updated `steps` times; 0 for ten updates or fewer."""
    return min(LARGEST_MOMENTUM, max(0.0, 1 - KEPT / max(1, steps)))


def head_learning_rate(learning_rate: float, steps: int, width: int) -> float:
    """Return the peak learning rate of a head whose inputs have `width` numbers, in `steps` optimizer steps.

    Args:
        learning_rate: the encoder's, which is the least that is returned.
    """
    return max(learning_rate, 2 / (max(1, steps) * math.sqrt(width)))


def judged_after(steps: int) -> int:
    """Return the step after which the head is judged: a third of all, rounded up.

    With a linear schedule more than half of all movement lies before it: the learning rates up to there have more than
    half of the sum of all (1 - (2/3)^2 = 0.56 without warm-up).
    """
    return math.ceil(steps / 3)


def at_chance(hits: int, texts: int) -> bool:
    """Return whether so many hits among `texts` keys are what chance may give.

    A head that cannot tell keys apart finds each text's own key with probability 1 / texts. So it has one hit on
    average, whatever the number of texts. True unless the probability of so many hits or more is at most 2.5%, the
    upper tail of a 95% interval: four hits are needed. False for fewer than `LEAST_TEXTS` texts: nothing can be said.
    """
    if texts < LEAST_TEXTS:
        return False
    p = 1 / texts
    below = sum(math.comb(texts, k) * p**k * (1 - p) ** (texts - k) for k in range(hits))
    return 1 - below > 0.025
