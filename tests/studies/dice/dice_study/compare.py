from maxk_lab.report.claims import judge_exact as judge  # noqa: F401
