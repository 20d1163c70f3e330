"""The text of `rbench --help`, and how help texts are laid out."""

from __future__ import annotations

HELP = """How robust is a sentence encoder?

rbench fine-tunes sentence encoders on tasks, attacks the classifiers with adversarial examples, and prints the attack
success rate (ASR): the share of correctly classified texts that an attack makes the classifier get wrong.

Start here: [bold]rbench run quickstart[/bold]"""


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph of a docstring, so that help wraps at the terminal's width."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
