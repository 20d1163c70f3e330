"""Fine-tuning on clean examples and on adversarial ones made beforehand (ADCL paper, appendix E, Table 8).

The adversarial texts come from an attack on another victim, fine-tuned on the same clean examples with the same seed.
The plan puts that fine-tuning and that attack before this one, as jobs of their own. Unlike the adversarial examples of
`adversarial`, these do not follow the model while it learns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from rbench.errors import JobError
from rbench.schema import Choice, Outcome, Strict
from rbench.score.health import Starvation
from rbench.tasks import Example
from rbench.train.finetune import FinetuneContext, Finetuned, FinetuneStrategy, clean

VERSION = 2


class Options(Strict):
    """The paper uses the Geometry attack, and one adversarial example for each training example."""

    attack: Choice = Choice(name="geometry", options={"max_words": 10})
    """The attack that makes the examples, with its options. 10 words are the limit of adversarial training in the paper
    (appendix F). Its other limit, 0.4 of the words, is the attack's option `share`."""
    texts: Literal["all", "successes"] = "all"
    """`all`: also texts with which the attack did not succeed, as it left them. `successes`: only texts that the clean
    victim got wrong (ours)."""


class PregeneratedStrategy(FinetuneStrategy[Options]):
    short = "Pregenerated texts"
    counted: Mapping[str, str] = {
        "adversarial_texts": "adversarial_texts",
        **dict.fromkeys(("changed_share", "searched_texts"), "searched_texts"),
    }

    def run(self, options: Options, context: FinetuneContext) -> Finetuned:
        """Fine-tune as `clean` does, on the training examples and on the texts that `context.generated` made of them.

        The scores are those of clean fine-tuning and three more. `searched_texts` is the number of texts that the
        attack worked on: those that the clean victim got right. `changed_share` is the share of them (0..1) that it
        changed, and `adversarial_texts` the number of examples added: those changed, or with `texts: successes` those
        changed with success. The health says how many of the words that the attack wanted to replace had no candidate,
        if its outcomes tell. Raises JobError where the attack on a training example timed out.
        """
        examples = context.sample("train")
        outcomes = _match_outcomes(examples, context.generated or ())
        # Skipped texts are left out: the clean victim was wrong on them, so the attack never changed them.
        searched = [outcome for outcome in outcomes if outcome.status in ("succeeded", "failed")]
        changed = [outcome for outcome in searched if outcome.perturbed not in (None, outcome.original)]
        added = _build_adversarial(examples, changed, options)
        extended = replace(
            context,
            data=context.data.with_train([*examples, *added]),
            # The examples are sampled already.
            training=context.training.model_copy(update={"max_train": None, "train_share": None}),
        )
        tuned = clean.CleanStrategy().run(clean.Options(), extended)
        counts = {
            "changed_share": len(changed) / max(1, len(searched)),
            "searched_texts": float(len(searched)),
            "adversarial_texts": float(len(added)),
        }
        starvation = Starvation().more(
            (searched_outcome.words_asked, searched_outcome.words_without_candidate) for searched_outcome in searched
        )
        return replace(tuned, scores=tuned.scores | counts, health=starvation.health())


def _match_outcomes(examples: Sequence[Example], generated: Sequence[Outcome]) -> list[Outcome]:
    """The outcome of each example; raises JobError where one timed out.

    Weights are kept by a key that says nothing of a time limit, so they must not depend on how fast a machine is.
    """
    outcome_of_example = {outcome.example_id: outcome for outcome in generated}
    outcomes = [outcome_of_example[example.id] for example in examples]
    if num_timed_out := sum(outcome.timed_out for outcome in outcomes):
        raise JobError(
            f"the attack on the training texts gave up {num_timed_out} of {len(outcomes)} after --max-seconds, so what "
            "a victim learned from the rest would depend on how fast this machine is. Run the command again with "
            "--retry-timeouts and a higher --max-seconds, or with none"
        )
    return outcomes


def _build_adversarial(examples: Sequence[Example], changed: Sequence[Outcome], options: Options) -> list[Example]:
    """The examples to add, each under the label of the example that it was made of."""
    labels = {example.id: example.label for example in examples}
    return [
        Example(f"{outcome.example_id}:adversarial", outcome.perturbed, labels[outcome.example_id])
        for outcome in changed
        if outcome.perturbed is not None and (options.texts == "all" or outcome.status == "succeeded")
    ]
