"""Replay the log of an attack on its victim, and check what a reader of its success rate takes for granted."""
