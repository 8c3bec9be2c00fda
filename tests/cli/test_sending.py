"""How far the sending to W&B is, and what is said of it, whatever becomes of W&B."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from maxk_lab.cli import sending
from maxk_lab.tracking import wandb_tracker
from maxk_lab.tracking.wandb_tracker import TrackingError


def test_the_progress_the_places_and_the_failures_of_sending_are_printed(capsys, monkeypatch):
    times = iter((0.0, 1.0, 6.0, 7.0, 8.0, 9.0))
    print_progress = sending.lines("online", lambda: next(times))
    for done in (1, 60, 61, 120, 121):
        print_progress(done, 121)
    run = SimpleNamespace(folder=SimpleNamespace(root="results/a b"), plan=None)
    places = ["results/a b/wandb/offline-run-1-x", "results/a b/wandb/offline-run-2-y"]
    monkeypatch.setattr(wandb_tracker, "track", lambda *_, **__: places)
    assert sending.send_all(run, "disabled", None, news=True, last=True) == ([], "")
    assert sending.send_all(run, "offline", None, news=True, last=True) == (places, "")
    live = SimpleNamespace(end=lambda seconds: {"id": "https://there"})

    def track(*_, sent, **settings):
        raise TrackingError("no network", [*sent.values()])

    monkeypatch.setattr(wandb_tracker, "track", track)
    for last, loss in ((True, "tracked in part only"), (False, "")):
        sent = sending.send_all(run, "online", live, news=True, last=last)
        assert sent == (["https://there"], loss)
    assert capsys.readouterr().err.splitlines() == [
        "60 of 121 runs sent to W&B, about 10 s left",
        "120 of 121 runs sent to W&B; the last has the tables and the report",
        "Writing files for W&B",
        "Send them with: wandb sync 'results/a b/wandb'/offline-run-*",
        "Sending to W&B",
        "warning: not tracked: no network",
        "Not sent to W&B: another process still works in this run, and sends all when it ends; "
        "or do so with: WANDB_MODE=online maxk-lab track 'results/a b'",
    ]


@pytest.mark.parametrize(
    ("variables", "tracking", "mode", "reason"),
    [
        ("", "online", "online", ""),
        ("WANDB_MODE=offline", "online", "offline", "WANDB_MODE"),
        ("WANDB_MODE=dryrun", "online", "offline", "WANDB_MODE"),
        ("WANDB_MODE=online WANDB_DISABLED=true", "offline", "disabled", "WANDB_DISABLED"),
        ("WANDB_MODE=online", "disabled", "disabled", ""),  # the sweep does not ask for W&B
        ("WANDB_DISABLED=false", "offline", "offline", ""),
    ],
)
def test_variables_of_wandb_overrule_the_sweep_and_a_line_says_so(
    capsys, monkeypatch, variables, tracking, mode, reason
):
    for variable in variables.split():
        monkeypatch.setenv(*variable.split("="))
    spec = SimpleNamespace(tracking=SimpleNamespace(wandb=tracking))
    folder = SimpleNamespace(root=Path("results"))
    run = SimpleNamespace(plan=SimpleNamespace(spec=spec), folder=folder)
    chosen, live = sending.live_sending(run)
    assert (chosen, live is None) == (mode, mode == "disabled")
    line = f"W&B mode: {mode} ({reason} is set)" if reason else ""
    assert capsys.readouterr().err.strip() == line
