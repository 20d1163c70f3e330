"""Encoders for others to use: a folder that sentence-transformers loads (`export`), and its model card."""
