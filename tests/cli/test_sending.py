"""How far the sending to W&B is, and what is said of it, whatever becomes of W&B."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from maxk_lab.cli import sending
from maxk_lab.tracking import wandb_tracker
from maxk_lab.tracking.wandb_tracker import TrackingError


def sent(mode: str, live: Any = None, *, last: bool = True) -> tuple[list[str], str]:
    plan: Any = SimpleNamespace(spec=SimpleNamespace(tracking=SimpleNamespace(wandb=mode)))
    run: Any = SimpleNamespace(plan=plan, folder=SimpleNamespace(root="results/a b"))
    return sending.send_all(run, live, news=True, last=last)


def test_now_and_then_it_is_said_how_long_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter((0.0, 1.0, 6.0, 7.0, 8.0, 9.0))
    print_progress = sending.lines("online", lambda: next(times))
    for done in (1, 60, 61, 120, 121):
        print_progress(done, 121)
    assert capsys.readouterr().err.splitlines() == [
        "60 of 121 runs sent to W&B, about 10 s left",
        "120 of 121 runs sent to W&B; the last has the report and the bundle",
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
    what = "the records, the report and the bundle"
    assert capsys.readouterr().err.splitlines() == [
        "Nothing was sent to W&B, as the sweep does not ask for it; to send it: "
        "maxk-lab track 'results/a b'",
        f"Writing {what} for W&B",
        "Send them with: wandb sync 'results/a b/wandb'/offline-run-*",
        f"Sending {what} to W&B",
        "warning: not tracked: no network",
        "Not sent to W&B: another process still works in this run, and sends all when it ends; "
        "or do so with: maxk-lab track 'results/a b' --mode online",
    ]
