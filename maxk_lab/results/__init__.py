"""Results: runs read as tables of numbers, and comparisons of two runs. Records never change."""
