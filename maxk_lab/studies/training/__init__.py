"""The training study: policies trained with each estimator, and their Max@K curves on held-out instances."""
