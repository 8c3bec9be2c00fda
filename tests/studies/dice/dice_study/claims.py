from dice_study.section import largest
from maxk_lab.report.verdicts import together
from maxk_lab.sweeps.spec.claims.arithmetic import evaluate_value


def judge(claim, met, alpha):
    verdicts = []
    for (row,) in met:
        wanted = evaluate_value(claim.value, row.key.n, row.key.k, row.key.setting)
        close = abs(largest(row) - wanted) <= claim.slack(wanted)
        verdicts.append(("supported" if close else "refuted", f"{row.key.path}: {largest(row):g}"))
    return together(verdicts, "rows of dice")
