"""Publish encoders (`encoder`) and adversarial sets (`adversarial`), each with a card."""
