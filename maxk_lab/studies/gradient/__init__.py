"""The gradient study: bias, variance and signal-to-noise ratio of gradient estimates."""
