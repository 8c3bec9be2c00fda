"""Methods: the estimators themselves, with and without a baseline of their own."""
