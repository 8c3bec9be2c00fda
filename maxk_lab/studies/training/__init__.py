"""The training study: Max@K curves of policies trained with each estimator."""
