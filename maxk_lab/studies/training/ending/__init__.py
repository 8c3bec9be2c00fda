"""The end of a training besides Max@K: quantiles, other decoding, gaps, robust summaries."""
