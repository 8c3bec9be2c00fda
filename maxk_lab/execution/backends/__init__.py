"""The backends of a run: they have its units measured, here or on a cluster."""
