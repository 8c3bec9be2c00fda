"""How far the sending to W&B is, and what is said of it, whatever becomes of W&B."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from maxk_lab.cli import sending
from maxk_lab.tracking import wandb_tracker
from maxk_lab.tracking.wandb_tracker import TrackingError


def sent(mode: str, live: Any = None, *, last: bool = True) -> tuple[list[str], str]:
    run: Any = SimpleNamespace(folder=SimpleNamespace(root="results/a b"), plan=None)
    return sending.send_all(run, mode, live, news=True, last=last)


def test_now_and_then_it_is_said_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 1.0, 6.0, 7.0, 8.0, 9.0))
    print_progress = sending.lines("online", lambda: next(times))
    for done in (1, 60, 61, 120, 121):
        print_progress(done, 121)
    assert capsys.readouterr().err.splitlines() == [
        "60 of 121 runs sent to W&B, about 10 s left",
        "120 of 121 runs sent to W&B; the last has the tables and the report",
    ]


def test_what_is_sent_and_what_failed_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = ["results/a b/wandb/offline-run-1-x", "results/a b/wandb/offline-run-2-y"]
    monkeypatch.setattr(wandb_tracker, "track", lambda *_, **__: places)
    assert sent("disabled") == ([], "")
    assert sent("offline") == (places, "")
    live = SimpleNamespace(end=lambda seconds: {"id": "https://there"})

    def track(*_: object, sent: dict[str, str], **settings: Any) -> list[str]:
        raise TrackingError("no network", [*sent.values()])

    monkeypatch.setattr(wandb_tracker, "track", track)
    assert sent("online", live) == (["https://there"], "tracked in part only")
    assert sent("online", live, last=False) == (["https://there"], "")
    assert capsys.readouterr().err.splitlines() == [
        "Writing files for W&B",
        "Send them with: wandb sync 'results/a b/wandb'/offline-run-*",
        "Sending to W&B",
        "warning: not tracked: no network",
        "Not sent to W&B: another process still works in this run, and sends all when it ends; "
        "or do so with: WANDB_MODE=online maxk-lab track 'results/a b'",
    ]


@pytest.mark.parametrize(
    ("variables", "tracking", "mode", "line"),
    [
        ({}, "online", "online", ""),
        ({"WANDB_MODE": "offline"}, "online", "offline", "W&B mode: offline (WANDB_MODE is set)"),
        ({"WANDB_MODE": "dryrun"}, "online", "offline", "W&B mode: offline (WANDB_MODE is set)"),
        (
            {"WANDB_MODE": "online", "WANDB_DISABLED": "true"},
            *("offline", "disabled", "W&B mode: disabled (WANDB_DISABLED is set)"),
        ),
        ({"WANDB_MODE": "online"}, "disabled", "disabled", ""),  # the sweep does not ask for W&B
        ({"WANDB_DISABLED": "false"}, "offline", "offline", ""),
    ],
)
def test_variables_of_wandb_overrule_the_sweep_and_a_line_says_so(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    tracking: str,
    mode: str,
    line: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    spec = SimpleNamespace(tracking=SimpleNamespace(wandb=tracking))
    folder = SimpleNamespace(root=Path("results"))
    run: Any = SimpleNamespace(plan=SimpleNamespace(spec=spec), folder=folder)
    chosen, live = sending.live_sending(run)
    assert (chosen, live is None) == (mode, mode == "disabled")
    assert capsys.readouterr().err.strip() == line
