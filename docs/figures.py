"""Draw the figures of four papers from the golden runs, as docs/figures/NAME.png.

python docs/figures.py [NAME...]
"""

from __future__ import annotations

import sys
from pathlib import Path

import altair as alt
from PIL import Image

import maxk_lab
from maxk_lab.statistics.measures import MEASURES

ROOT = Path(__file__).resolve().parents[1]
# Golden run → its measure, and the columns of the x axis, of panels, of colours and of dashes.
FIGURES = {
    "pkpo_figure4": ("variance", "n", "k", "baseline", "estimator"),
    "pkpo_corollary3": ("value_variance", "n", "k", "policy.success_probability", "baseline"),
    "ordergrad_bandit": ("snr", "environment.arms", "environment.rewards", "estimator", "baseline"),
    "off_policy": ("squared_bias", "behaviour.distance", "k", "estimator", "baseline"),
}
# Smaller values are rounding errors: they stand at the lower edge.
SMALLEST = 1e-9


def draw(name: str) -> alt.FacetChart:
    """Return one measure of a golden run along an axis, with intervals.

    Both axes are logarithmic; the x axis is linear if it has a zero.
    """
    measure, axis, panel, color, dash = FIGURES[name]
    frame = maxk_lab.load(ROOT / "results/golden" / name, over="seeds")
    frame = frame[frame.measure == measure]
    numbers = frame[["value", "low", "high"]].clip(lower=SMALLEST)
    data = numbers.assign(x=frame[axis], panel=frame[panel], color=frame[color], dash=frame[dash])
    scale = alt.Scale(type="log", nice=False, base=2) if data.x.min() > 0 else alt.Scale()
    y = alt.Y("value:Q", title=MEASURES.get(measure).heading, axis=alt.Axis(format="~g"))
    base = alt.Chart(data, width=240, height=220).encode(
        x=alt.X("x:Q", title=axis, scale=scale, axis=alt.Axis(format="~g", tickCount=6)),
        y=y.scale(type="log"),
        color=alt.Color("color:N", title=color),
    )
    bars = base.mark_rule().encode(y="low:Q", y2="high:Q")
    dashes = alt.StrokeDash("dash:N", title=dash if data.dash.nunique() > 1 else None)
    curves = base.mark_line().encode(strokeDash=dashes)
    return alt.layer(bars, base.mark_circle(), curves).facet(alt.Column("panel:N", title=panel))


def main() -> None:
    """Write the figures."""
    folder = ROOT / "docs/figures"
    folder.mkdir(exist_ok=True)
    for name in sys.argv[1:] or FIGURES:
        path = folder / f"{name}.png"
        draw(name).save(path, ppi=110)
        with Image.open(path) as picture:  # in 64 colours it takes a third
            picture.convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    main()
