"""Figures of the gradient study."""
