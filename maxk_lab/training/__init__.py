"""Training: plain policy-gradient optimisation that takes a policy from one stage to the next."""
