from pydantic import BaseModel

from dice_study.pool import estimates


class Facts(BaseModel):
    best: float
    title: str = ""
    table: list[BaseModel] = []


def facts(pooled, summary):
    found = [one.interval.value for row in pooled.rows for one in estimates(row).values()]
    return Facts(best=max(found, default=0.0))
