"""A figure of matplotlib as one of Plotly: the same numbers and looks, with values on hover."""

from maxk_lab.report.formats.html.plotly.spec import plotly_spec
from maxk_lab.report.formats.html.plotly.words import UnconvertibleError

__all__ = ["UnconvertibleError", "plotly_spec"]
