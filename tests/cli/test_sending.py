"""How far the sending to W&B is, and what is said of it, whatever becomes of W&B."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from maxk_lab.cli import sending
from maxk_lab.tracking import wandb_tracker
from maxk_lab.tracking.wandb_tracker import TrackingError


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(sending, "say", lines.append)
    monkeypatch.setattr(sending, "warn", lambda line: lines.append(f"warning: {line}"))
    return lines


def clock(*times: float) -> Callable[[], float]:
    ticks: Iterator[float] = iter(times)
    return lambda: next(ticks)


def plan(mode: str) -> Any:
    return SimpleNamespace(spec=SimpleNamespace(tracking=SimpleNamespace(wandb=mode)))


RUN: Any = SimpleNamespace(root="results/a b")


def test_now_and_then_it_is_said_how_long_it_takes(said: list[str]) -> None:
    tell = sending.lines("online", clock(0.0, 1.0, 6.0, 7.0, 8.0, 9.0))
    for done in (1, 60, 61, 120, 121):
        tell(done, 121)
    assert said == [
        "60 of 121 runs sent to W&B, less than a minute left",
        "120 of 121 runs sent to W&B; the last has the report and the bundle",
    ]


def test_a_sweep_that_does_not_ask_for_it_starts_nothing(said: list[str]) -> None:
    assert sending.send_all(plan("disabled"), RUN, None, news=True, last=True) == ([], "")
    assert said == [
        "Nothing was sent to W&B, as the sweep does not ask for it; to send it: "
        "maxk-lab track 'results/a b'"
    ]


def test_what_was_sent_meanwhile_is_handed_on_and_what_failed_is_told(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    live: Any = SimpleNamespace(end=lambda seconds: {"id": "https://there"})
    asked: dict[str, Any] = {}

    def track(*_: object, **settings: Any) -> list[str]:
        asked.update(settings)
        raise TrackingError("no network", ["https://there"])

    monkeypatch.setattr(wandb_tracker, "track", track)
    sent = sending.send_all(plan("online"), RUN, live, news=True, last=True)
    assert sent == (["https://there"], "tracked in part only")
    assert asked["sent"] == {"id": "https://there"}
    assert said[-1] == "warning: not tracked: no network"
    others = sending.send_all(plan("online"), RUN, live, news=True, last=False)
    assert others == (["https://there"], "")
    assert said[-1].startswith("Not sent to W&B: another process still works in this run")


def test_offline_runs_are_sent_by_a_command_that_a_shell_takes(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = ["results/a b/wandb/offline-run-1-x", "results/a b/wandb/offline-run-2-y"]
    monkeypatch.setattr(wandb_tracker, "track", lambda *_, **__: places)
    assert sending.send_all(plan("offline"), RUN, None, news=True, last=True) == (places, "")
    assert said == [
        "Writing the records, the report and the bundle for W&B",
        "Send them with: wandb sync 'results/a b/wandb'/offline-run-*",
    ]
