"""The held-out instances that trained policies are evaluated on, and their optima."""
