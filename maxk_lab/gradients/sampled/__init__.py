"""Measures of a gradient estimate from sampled groups of trajectories."""
