"""Baselines: what is subtracted from each sample's share of the maximum."""
