"""The gradient study: bias, variance and signal-to-noise ratio of gradient estimates."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maxk_lab.studies.gradient import checks, plan, schema, worker
    from maxk_lab.sweeps.parts import Parts

    _parts: Parts = (schema, plan, checks, worker)
