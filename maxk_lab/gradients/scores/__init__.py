"""Scores: the gradients of log-probabilities of drawn trajectories, and their products."""
