"""Lightning classes for users of RL4CO: its POMO with Max@K weights."""
