"""Train encoders: one training loop (`loop.pretrain`), and one module for each objective (`objectives/<name>.py`).

Importing this package, or an objective for its `Options`, does not import torch.
"""
