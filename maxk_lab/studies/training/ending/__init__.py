"""What the end of a training is besides Max@K: quantiles, other ways of decoding, gaps, robust summaries."""
