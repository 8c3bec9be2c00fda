import altair as alt

from maxk_lab.reports.charts import Figure, finished


def charts(found, summary, more):
    if rows := [row for row in found.rows if row.all_finished]:
        values = [{"k": row.key.k, "value": row.by_seed[0].largest} for row in rows]
        chart = alt.Chart(alt.Data(values=values)).mark_line().encode(x="k:Q", y="value:Q")
        title = "The largest of k dice"
        yield Figure("dice", title, "", finished(chart, title))
