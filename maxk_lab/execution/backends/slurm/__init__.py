"""Slurm: job arrays of packed units, whose jobs go on without the process that submitted them."""
