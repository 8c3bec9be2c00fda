"""Plans of training steps from a log, and the difference of two logs."""
