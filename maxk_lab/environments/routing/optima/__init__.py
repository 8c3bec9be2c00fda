"""Optima: the best reward of a problem instance, exact where that can be proved, else the best that a solver finds."""

from maxk_lab.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "REFERENCES": "availability",
        "reference_refusal": "availability",
        "Optima": "solve",
        "method_for": "solve",
        "optima": "solve",
    },
)
