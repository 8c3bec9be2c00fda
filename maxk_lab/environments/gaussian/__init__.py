"""The Gaussian policy without context, and its reward functions."""
