"""Formats: one document as terminal text, Markdown, LaTeX, CSV or JSON."""
