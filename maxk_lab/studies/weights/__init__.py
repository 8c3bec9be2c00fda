"""The weights study: what an estimator makes of given groups of rewards."""
