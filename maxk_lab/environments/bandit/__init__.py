"""The tabular softmax bandit."""
