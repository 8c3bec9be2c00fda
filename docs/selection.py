"""Draw docs/explanation/selection.png from the golden records of selection.

python docs/selection.py
"""

from __future__ import annotations

from pathlib import Path

import altair as alt
from PIL import Image

import maxk_lab

ROOT = Path(__file__).resolve().parents[1]
TITLES = {"relative_variance": "relative variance per generated group", "cosine": "cosine with ∇J"}


def draw() -> alt.VConcatChart:
    """Return relative variance and cosine by n and selection, a column for each K and stage."""
    frame = maxk_lab.load(ROOT / "results/golden/selection", over="seeds")
    frame = frame[(frame.estimator == "maxk") & (frame.baseline == "centred")]
    frame = frame[~((frame.n == 4) & (frame.k == 4))]
    stages = frame.stage.map({0: "untrained", 100: "after 100 steps"})
    frame = frame.assign(point="n = " + frame.n.astype(str) + ", K = " + frame.k.astype(str))
    frame = frame.assign(policy=stages)
    rows = []
    for measure, title in TITLES.items():
        base = alt.Chart(frame[frame.measure == measure], width=260, height=150)
        rows.append(
            base.mark_bar()
            .encode(
                x=alt.X("point:N", title=None, axis=alt.Axis(labelAngle=0)),
                xOffset=alt.XOffset("selection:N", sort=["none", "drop_equal", "resample_equal"]),
                y=alt.Y("value:Q", title=title),
                color=alt.Color("selection:N", sort=["none", "drop_equal", "resample_equal"]),
                column=alt.Column("policy:N", title=None, sort=["untrained"]),
            )
            .resolve_scale(y="shared")
        )
    return alt.vconcat(*rows)


def main() -> None:
    """Write the chart."""
    path = ROOT / "docs/explanation/selection.png"
    draw().save(path, ppi=110)
    with Image.open(path) as picture:  # in 64 colours it takes a third
        picture.convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    main()
