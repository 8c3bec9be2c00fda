from dice_study.plan import DiceConditions
from maxk_lab.sweeps.spec.grids import check_entries


def check(block, resolved, found, source):
    check_entries(block, found, source, lambda grid, environment: DiceConditions(environment))
    if block.study is not None and block.study.throws > 1000:
        source.add(("dice", "throws"), "nobody throws so often")
