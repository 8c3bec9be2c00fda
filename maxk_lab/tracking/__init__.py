"""Finished records sent to Weights & Biases."""
