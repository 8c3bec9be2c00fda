"""The objective study: the exact objective along one parameter, and where it is largest."""
