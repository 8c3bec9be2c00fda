"""The short table of a gradient study: every method at one size, or counts over many places."""
