from maxk_lab.reports.claims import judge_exact as judge  # noqa: F401
