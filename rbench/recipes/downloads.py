"""Downloads what TextAttack publishes, with its own code, into its cache folder."""

from __future__ import annotations

from rbench.recipes import _textattack  # noqa: F401 (imports textattack without its side effects)


def word_vectors() -> None:
    """Download the counter-fitted word vectors that TextAttack's recipes load. Raises whatever TextAttack does."""
    from textattack.shared import WordEmbedding, utils

    utils.download_from_s3(f"{WordEmbedding.PATH}/paragramcf")
