"""Pack a number for each example into a few letters, so that encoders can be compared example by example."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

# A change of the format needs a higher VERSION, which computes the jobs anew that store it (config/versions.py); and
# records of stored RUNs must still be read.
VERSION = 1


def pack_hits(hits: Sequence[bool] | NDArray[np.bool_]) -> str:
    """Return whether each was a hit as hexadecimal digits, four a digit; the last digit is filled with zeros."""
    bits = np.asarray(hits, dtype=bool)
    return np.packbits(bits).tobytes().hex()[: -(-len(bits) // 4)]


def unpack_hits(text: str, n: int) -> NDArray[np.bool_]:
    """Return the `n` hits that `pack_hits` wrote. Raises ValueError where the text has another length."""
    if len(text) != -(-n // 4):
        raise ValueError(f"{len(text)} digits do not hold {n} hits")
    data = bytes.fromhex(text + "0" * (len(text) % 2))
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8))[:n].astype(bool)


def pack_numbers(numbers: ArrayLike) -> str:
    """Return numbers (n,), rounded to 32 bits, as compressed base64."""
    return base64.b64encode(zlib.compress(np.asarray(numbers, dtype="<f4").tobytes(), 9)).decode("ascii")


def unpack_numbers(text: str, n: int) -> NDArray[np.float32]:
    """Return the `n` numbers that `pack_numbers` wrote. Raises ValueError where the text does not hold so many."""
    size = 4 * n
    try:
        decompressor = zlib.decompressobj()
        # Asking for one byte too many detects a longer text, and limits what a crafted one can unpack to.
        data = decompressor.decompress(base64.b64decode(text, validate=True), size + 1)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(f"not packed numbers: {error}") from error
    if len(data) != size or not decompressor.eof:
        raise ValueError(f"the text does not hold {n} numbers")
    return np.frombuffer(data, dtype="<f4").astype(np.float32)
