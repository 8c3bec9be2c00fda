"""Policies: what acts in an environment, as torch modules."""
