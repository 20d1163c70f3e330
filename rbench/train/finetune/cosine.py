"""A scorer of similarity without training: the cosine of an encoder's two vectors, mapped to the task's gold scale.

The map is a monotone (isotonic) regression of gold scores on cosines, fitted on the validation split for each encoder
(ours: the papers do not say how a cosine is compared with a gold score). Isotonic regression gives steps, and on a step
no attack could see which of two texts is better for it. So the score runs in straight lines from the centre of each
step to that of the next one. Below the first and above the last centre it runs on to the ends of the scale, which it
reaches at the cosines -1 and 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rbench.errors import JobError
from rbench.schema import Similarity, Strict
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy
from rbench.train.finetune._data import gold_scores, score_validation, task_scale

VERSION = 1


class Options(Strict):
    """The fit has no options; the suite's `training` says how many validation rows it uses, and the longest input."""


class CosineStrategy(FinetuneStrategy[Options]):
    short = "Cosine"
    frozen = True
    serves = ("similarity",)

    def run(self, options: Options, context: FinetuneContext) -> Finetuned:
        """Fit the map on the validation split. The encoder's weights are not changed.

        The scores are `validation_spearman` (-1..1) and `validation_error`, the mean absolute error on the gold scale.
        Both are of the rows of the fit. A fit of few parameters to many rows flatters `validation_error` a little;
        ranks hardly depend on it.

        Raises:
            JobError: a gold score lies outside the task's scale, or all cosines are equal.
        """
        import torch

        from rbench.encoders.scorer import CosineHead, EncoderScorer

        task, training = context.data.spec, context.training
        scale = task_scale(task)
        examples = context.sample("validation")
        gold = gold_scores(examples, task)
        encoder = context.encoder.to(context.device).eval()
        similarity = encoder.settings.similarity
        start = CosineHead(np.array([-1.0, 1.0]), np.array(scale), similarity)
        scorer = EncoderScorer(encoder, start, scale, training.max_length)
        vectors = scorer.encode([text for example in examples for text in example.texts])
        context.progress(1, 2, f"validation: {len(examples)} pairs encoded")
        cosines = start.cpu().raw(vectors[::2], vectors[1::2]).numpy()
        head = CosineHead(*fit_knots(cosines, gold, scale, similarity), similarity)
        scores = head.mapped(torch.from_numpy(cosines), scale).numpy()
        context.progress(2, 2, f"fitted with {len(head.cosines)} knots")
        fitted = EncoderScorer(encoder, head, scale, training.max_length)
        return Finetuned(fitted.eval(), score_validation(scores, gold))


def fit_knots(
    cosines: NDArray[np.float64],
    gold: NDArray[np.float64],
    scale: tuple[float, float],
    similarity: Similarity = "cosine",
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The cosines and the scores between which the map runs straight: a centre for each step of the isotonic fit.

    Where vectors are compared otherwise, similarities stand in the place of cosines, and the ends of the scale are
    reached as far beyond the smallest and the largest one as these are apart.

    Raises JobError where the cosines are all equal: then there is nothing to fit.
    """
    from sklearn.isotonic import isotonic_regression

    values, place, counts = np.unique(cosines, return_inverse=True, return_counts=True)
    if len(values) < 2:
        raise JobError("all validation pairs have the same cosine: the encoder does not tell sentences apart")
    # Pairs with equal cosines must get the same score: their mean, weighted by their number.
    means = np.bincount(place, weights=gold) / counts
    levels = isotonic_regression(means, sample_weight=counts, y_min=scale[0], y_max=scale[1])
    scores, step = np.unique(levels, return_inverse=True)
    centres = np.bincount(step, weights=counts * values) / np.bincount(step, weights=counts)
    low, high = -1.0, 1.0
    if similarity == "cosine":
        centres = np.clip(centres, low, high)  # rounding may put a cosine outside
    else:  # no value is the least or the largest that there is
        width = values[-1] - values[0]
        low, high = values[0] - width, values[-1] + width
    if centres[0] > low:
        centres, scores = np.append(low, centres), np.append(scale[0], scores)
    if centres[-1] < high:
        centres, scores = np.append(centres, high), np.append(scores, scale[1])
    return centres, scores
