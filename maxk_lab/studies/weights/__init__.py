"""The weights study: the weights that estimators give to groups of rewards."""
