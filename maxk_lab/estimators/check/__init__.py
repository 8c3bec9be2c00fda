"""The check: fast formulas against slow ones, identities, and unbiasedness by complete enumeration."""
