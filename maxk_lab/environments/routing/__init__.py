"""Routing and scheduling problems of RL4CO, with repairs where RL4CO is wrong."""
