"""Measures of a gradient estimate from every possible group of trajectories."""
