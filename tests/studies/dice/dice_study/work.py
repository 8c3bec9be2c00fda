import random
from statistics import fmean

from maxk_lab.seeds import derive_seed


def measure(unit, cells, *, cache, event):
    for done, cell in enumerate(cells, start=1):
        dice = random.Random(derive_seed("dice", unit["seed"], cell["n"]))
        throws = [[dice.randint(1, 6) for _ in range(cell["n"])] for _ in range(unit["throws"])]
        event("cells", {"done": done, "of": len(cells)})
        lost = ValueError("7 dice roll off the table") if cell["n"] == 7 else None
        yield cell["id"], lost or {"largest": fmean(max(dice[: cell["k"]]) for dice in throws)}
