"""What is seen to before Ray joins a cluster, on this machine and without one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.backends.ray import joined, reach
from maxk_lab.sweeps.run.backends.ray.scratch import Scratch


@contextmanager
def served(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A service that treats its first caller so."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as caller:
                serve(caller)
                caller.recv(1000)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def silent(caller: socket.socket) -> None:
    caller.recv(1000)


def closing(caller: socket.socket) -> None:
    caller.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_another_service_is_told_from_ray_at_once(scheme: str) -> None:
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.handle_request).start()
    with pytest.raises(OSError, match="is not Ray"):
        reach.check(f"{scheme}127.0.0.1:{server.server_port}")
    server.server_close()


def test_what_closes_is_not_ray() -> None:
    with served(closing) as address, pytest.raises(OSError, match="listens there") as told:
        reach.check(address)
    assert "is not Ray" in str(told.value)


def test_what_says_nothing_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "_PATIENCE", 0.2)
    with served(silent) as address, pytest.raises(OSError, match="listens there") as told:
        reach.check(address)
    assert "said nothing for 0.2 s" in str(told.value)


def test_what_greets_as_ray_does_passes() -> None:
    greetings = []

    def like_ray(caller: socket.socket) -> None:
        caller.sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        greetings.append(caller.recv(1000))

    with served(like_ray) as address:
        reach.check(f"ray://{address}")
    assert [one[:14] for one in greetings] == [b"PRI * HTTP/2.0"]


def test_a_token_that_is_there_is_shown_unless_the_user_has_said_no(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def mode(**environment: str) -> str | None:
        reach.use_token(environment)
        return environment.get("RAY_AUTH_MODE")

    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert mode() is None
    assert mode(RAY_AUTH_TOKEN="a") == "token"
    assert mode(RAY_AUTH_TOKEN_PATH=str(tmp_path / "none")) is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("a")
    assert mode() == "token"
    assert mode(RAY_AUTH_MODE="disabled") == "disabled"


def test_the_advice_is_about_the_token_that_is_shown_or_is_missing() -> None:
    assert "must be that of the head node" in reach.advice({"RAY_AUTH_MODE": "token"})
    assert "copy ~/.ray/auth_token from the head node" in reach.advice({})


def test_a_cluster_of_this_machine_removes_the_folder_of_one_whose_driver_was_killed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("ray")

    def refused(*given: object) -> None:
        raise RefusedError("no")

    monkeypatch.setattr(joined, "short_folder", lambda: str(tmp_path))
    monkeypatch.setattr(joined, "_join", refused)
    left = Scratch(str(tmp_path), "maxk-ray-")
    left._lock.close()
    with pytest.raises(RefusedError, match="no"), joined.opened("", 1):
        pass
    assert not [*tmp_path.iterdir()]
