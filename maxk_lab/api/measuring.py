"""The measurement of samples that a training of the user's own has drawn."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from maxk_lab.api.reporting import RunReport
from maxk_lab.own.audit import Audit
from maxk_lab.own.measure import measured
from maxk_lab.reports.report import Report

Arguments = ParamSpec("Arguments")


def _reported(
    function: Callable[Arguments, Report | Audit],
) -> Callable[Arguments, RunReport | Audit]:
    """The function with the methods of `RunReport` on the report that it returns."""

    @wraps(function, assigned=("__doc__",))
    def measure(*arguments: Arguments.args, **options: Arguments.kwargs) -> RunReport | Audit:
        result = function(*arguments, **options)
        return result if isinstance(result, Audit) else RunReport.of(result)

    return measure


measure = _reported(measured)
