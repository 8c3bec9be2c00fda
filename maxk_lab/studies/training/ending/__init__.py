"""The end of a training besides Max@K: quantiles, ways of decoding, gaps, robust summaries."""
