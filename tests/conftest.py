"""What holds for all tests: Ctrl-C reaches the programs that they start, also where the tests themselves run in the background."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """A shell starts background jobs deaf to SIGINT, and what they start inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
