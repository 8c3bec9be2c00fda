"""Reports: finished records become tables, figures and verdicts on claims; no record changes."""
