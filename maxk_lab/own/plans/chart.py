"""The table and the chart of a plan, as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxk_lab.errors import LabError

if TYPE_CHECKING:
    from maxk_lab.own.audit import Audit

CAPTION = (
    "Var = (n/B)(V_n + V_between) over the lowest at this K; bars: 95 % intervals over prompts"
)


def plan_chart(audit: Audit) -> Any:
    """Return the chart of columns n, loss, loss_low, loss_high, baseline; a panel per source, K."""
    import altair as alt

    plan = audit.plan[audit.plan.loss <= 20].copy()
    single = plan.source.nunique() == 1
    plan["panel"] = ("" if single else plan.source + ", ") + "K = " + plan.k.astype(str)
    x = alt.X("n:O", title="samples of a prompt (n)")
    scale = alt.Scale(type="log")
    title = "variance of a step over the lowest"
    color = alt.Color("baseline:N", title="baseline")
    base = alt.Chart(plan)
    lines = base.mark_line(point=True).encode(
        x=x,
        y=alt.Y("loss:Q", title=title, scale=scale),
        color=color,
        tooltip=["n", "prompts", "baseline", "loss", "relative_variance", "dead"],
    )
    bars = base.mark_rule().encode(x=x, y=alt.Y("loss_low:Q", title=title), y2="loss_high:Q")
    layered = alt.layer(bars.encode(color=color), lines).properties(width=260, height=200)
    return layered.facet(
        alt.Facet("panel:N", title=None), columns=2, title=[CAPTION, audit.assumption]
    )


def write_plan(audit: Audit, folder: Path) -> list[Path]:
    """Write plan.csv, plan.html and plan.png into a folder; return their paths.

    Raises `LabError` for an audit without a plan.
    """
    if audit.plan.empty:
        notes = (note for note in audit.notes if note.startswith("no plan"))
        raise LabError(next(notes, "no plan: the audit has no budget"))
    folder.mkdir(parents=True, exist_ok=True)
    chart = plan_chart(audit)
    files = [folder / f"plan.{suffix}" for suffix in ("csv", "html", "png")]
    audit.plan.to_csv(files[0], index=False)
    chart.save(files[1], inline=True)
    chart.save(files[2], scale_factor=2)
    return files
