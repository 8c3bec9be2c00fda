"""The check: fast formulas against slow ones, identities, and exact unbiasedness."""
