"""Encoders: where their weights are (`locate`), the network with its pooling (`load`), and a classifier on top.

Importing this package does not import torch; `load` does when it is called.
"""

from __future__ import annotations

from rbench.encoders.load import load
from rbench.encoders.locate import locate

__all__ = ["load", "locate"]
