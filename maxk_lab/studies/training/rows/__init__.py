"""Rows of the training study: records pooled over seeds, their names, and their comparisons."""
