"""Publish encoders: write a folder that sentence-transformers loads (`export`), and its model card (`card`)."""
