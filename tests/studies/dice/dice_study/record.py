from maxk_lab.fields import Recorded


class Metrics(Recorded):
    largest: float
