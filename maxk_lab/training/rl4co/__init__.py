"""Lightning classes for users of RL4CO: its POMO with Max@K weights."""

# Before any module of this package imports RL4CO.
from maxk_lab.policies import quiet as quiet
