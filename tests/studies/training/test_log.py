"""The training log: pooled over seeds, at the steps that all of them have."""

import numpy as np
import pytest

from maxk_lab.report.summarise import summarise_records
from maxk_lab.statistics.seeds.over_seeds import over_seeds

pytestmark = pytest.mark.slow


def made(lab, change=lambda log, cell: None, **which):
    """Records of training cells whose logs were changed."""
    cells = lab.training_cells(**which)
    records = [lab.training_record(cell) for cell in cells]
    for record in records:
        change(record.metrics["log"], record.cell)
    return cells, records


def rows(lab, change=lambda log, cell: None, **which):
    """The rows of these records."""
    return summarise_records(*made(lab, change, **which), name="logged").studies["training"].rows


def test_each_step_is_the_mean_over_seeds_with_their_interval(lab):
    cells, records = made(lab)
    row = summarise_records(cells, records, name="logged").studies["training"].rows[-1]
    own = [record.metrics["log"] for record in records if record.cell["id"] in row.cells.values()]
    assert len(own) == 3
    found = row.log["reward/mean"]
    for i, step in enumerate(own[0]["step"]):
        wanted = over_seeds([log["reward/mean"][i] for log in own], 0.95)
        # 64 rollouts per step, and those of the step itself come after.
        assert found.rollouts[i] == 64 * step
        assert (found.values[i], found.low[i], found.high[i]) == pytest.approx(
            (wanted.value, wanted.low, wanted.high)
        )


def test_one_seed_has_values_and_no_intervals(lab):
    row = rows(lab, seeds=(4,))[0]
    found = row.log["entropy"]
    assert not np.isnan(found.values).any()
    assert np.isnan([*found.low, *found.high]).all()


def test_a_value_that_one_seed_lacks_is_undefined_there(lab):
    def change(log, cell):
        if cell["seed"] == 1:
            log["reward/mean"][3] = None

    found = rows(lab, change)[0].log["reward/mean"]
    assert np.flatnonzero(np.isnan(found.values)).tolist() == [3]
    assert np.flatnonzero(np.isnan(found.low)).tolist() == [3]


def test_seeds_are_pooled_by_step_not_by_position(lab):
    """Logs may be thinned differently: only what was logged at the same step is averaged."""

    def change(log, cell):
        log["reward/mean"] = [float(step) for step in log["step"]]
        if cell["seed"] == 1:
            for name, values in log.items():
                log[name] = values[::2]

    found = rows(lab, change)[0].log["reward/mean"]
    assert found.rollouts == tuple(64 * step for step in range(0, 100, 10))
    assert found.values == tuple(float(step) for step in range(0, 100, 10))


def test_a_row_without_all_its_seeds_has_no_log(lab):
    cells = lab.training_cells()
    records = [
        lab.training_record(cell, status="failed" if cell["seed"] == 2 else "done")
        for cell in cells
    ]
    assert all(
        row.log == {}
        for row in summarise_records(cells, records, name="young").studies["training"].rows
    )
