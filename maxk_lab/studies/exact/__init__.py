"""Exact studies: score weights of groups of rewards, and objectives along one parameter."""
