"""Classifiers that exist: models, functions and endpoints that are attacked as they are."""
