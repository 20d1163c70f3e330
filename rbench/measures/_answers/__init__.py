"""What victims of each kind make of a text, as the measure `noise` stores it for each text of a sample.

| task           | stored of a text                             | the number                           |
|----------------|----------------------------------------------|--------------------------------------|
| classification | whether the label is right                   | accuracy                             |
| similarity     | the score of the pair; once, its gold score  | Spearman's correlation of the two    |
| ranking        | nDCG@10 of the query (`rbench.encoders.index`) | the mean over queries              |

Each family of kinds has a module here, found by its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rbench.measures._answers._shared import TextAnswers as TextAnswers
from rbench.measures._context import VictimContext

if TYPE_CHECKING:
    from rbench.tasks import Example


def collect_answers(
    context: VictimContext, texts: Sequence[tuple[str, ...]], examples: Sequence[Example]
) -> TextAnswers:
    """Ask the victim for some distinct texts, each once.

    Args:
        texts: the columns of each.
        examples: the sample. The places that are asked for later are those of its changed texts, in its order.

    Raises JobError where a vector or a logit is not finite.
    """
    module: Any = context.task.of_kind.module_in(__name__)
    collected: TextAnswers = module.answers(context, texts, examples)
    return collected
