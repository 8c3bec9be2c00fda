"""Scores: trajectories drawn from a policy, the gradients of their log-probabilities, and the products of these."""
