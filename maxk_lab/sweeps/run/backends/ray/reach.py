"""Checks before Ray joins a cluster: that one answers there, and the token that it may want."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from pathlib import Path

# Seconds in which a cluster must answer.
_PATIENCE = 10.0
# How a client of HTTP/2, and so of Ray, begins, with settings that change nothing; a server says
# its settings first, too.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HEADER, _SETTINGS = 9, 4
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"


def check(address: str) -> None:
    """Raise `OSError` where nobody listens, or something else than Ray: it would try for minutes.

    An address without a port, such as auto, is not looked at.
    """
    host, found, port = address.removeprefix("ray://").rpartition(":")
    if not (found and port.isdigit()):
        return
    with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as there:
        if os.environ.get("RAY_USE_TLS", "0") not in ("0", ""):
            return  # it would answer to an encrypted greeting alone
        try:
            there.sendall(_GREETING)
            answer = there.recv(_HEADER, socket.MSG_WAITALL)
        except TimeoutError as error:
            raise OSError(f"what listens there has said nothing for {_PATIENCE:g} s") from error
        except OSError as error:
            raise OSError(f"what listens there is not Ray ({error})") from error
    if len(answer) < _HEADER or answer[3] != _SETTINGS:
        raise OSError("what listens there is not Ray")


def use_token(environment: MutableMapping[str, str]) -> None:
    """Have Ray show its token where there is one, unless the user has said whether it is to.

    `ray start` does so by itself, and then answers nobody without it. Ray must not be imported yet.
    """
    if _MODE in environment:
        return
    named = environment.get(f"{_TOKEN}_PATH")
    file = Path(named) if named else Path.home() / ".ray" / "auth_token"
    if environment.get(_TOKEN) or file.is_file():
        environment[_MODE] = "token"


def advice(environment: MutableMapping[str, str]) -> str:
    """Return what to do about tokens where a cluster that is there lets nobody in."""
    if environment.get(_MODE) == "token":
        return "its token (~/.ray/auth_token) must be that of the head node"
    return (
        "if it asks for a token, copy ~/.ray/auth_token from the head node to this machine, "
        f"and set {_MODE}=token where another mode is set"
    )
