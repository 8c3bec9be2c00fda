"""Intervals, resampling units, bias verdicts, paired comparisons; and the table of measures."""
