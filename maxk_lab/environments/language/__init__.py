"""Language models as bandits: the toy language, its tasks and its reward functions."""
