"""Figures of the training study."""
