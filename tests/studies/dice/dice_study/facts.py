from statistics import fmean

from pydantic import BaseModel


class Facts(BaseModel):
    best: float


def facts(pooled, summary):
    found = ([one.largest for one in row.by_seed.values()] for row in pooled.rows)
    return Facts(best=max(map(fmean, filter(None, found)), default=0.0))
