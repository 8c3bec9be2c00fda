"""Artists of matplotlib as traces and annotations of Plotly."""
