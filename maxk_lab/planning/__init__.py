"""A sweep becomes a plan: its cells, their ids, and the units that share samples."""
