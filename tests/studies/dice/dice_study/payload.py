from dice_study.record import Metrics
from maxk_lab.tracking.table import PayloadTable, finished, record_path, told


def metrics(record):
    found = finished(record, Metrics)
    return told(record_path(record, "dice"), record, found.model_dump() if found else {})


def tables(records):
    lines = [[record.cell["id"], record.status] for record in records]
    return {"cells": PayloadTable(("cell", "status"), lines)}
