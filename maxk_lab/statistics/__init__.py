"""Statistics: intervals, resampling units, bias verdicts and paired comparisons of whatever a study measured."""
