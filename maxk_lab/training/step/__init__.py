"""One optimisation step: rollouts → shaped rewards → weights → surrogate loss → Adam."""
