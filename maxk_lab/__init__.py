"""maxk-lab: which Max@K gradient estimator and which baseline to use, measured with evidence."""

__version__ = "0.1.0"
