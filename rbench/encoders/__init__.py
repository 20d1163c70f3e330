"""Find the weights of encoders (`locate`) and load the network with its pooling (`load`).

`classifier` adds a linear head, and `classify` predicts with it. Importing this package does not import torch; calling
`load` does.
"""

from __future__ import annotations

from rbench.encoders.load import load
from rbench.encoders.locate import locate

__all__ = ["load", "locate"]
