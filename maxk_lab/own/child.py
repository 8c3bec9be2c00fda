"""A check in a process that is killed after a timeout, even if the user's function hangs."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from maxk_lab.errors import LabError
from maxk_lab.own.verdict import Law, Verdict

# Timeouts in seconds: for the function, and for the process with its imports.
LIMIT, _ALL = 45.0, 58.0


def check_path(
    path: str,
    *,
    progress: Callable[[Verdict], None] = lambda verdict: None,
    limit: float = LIMIT,
    **options: Any,
) -> Verdict:
    """Return the verdict on the function at a path; a partial verdict after `limit` seconds.

    Calls `progress` with each partial verdict; `options` are those of `check_steps`. Raises
    `LabError` if there is no such function.
    """
    context, start = get_context("spawn"), time.monotonic()
    deadline = start + _ALL
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, path, options), daemon=True)
    process.start()
    sender.close()
    verdict = Verdict(path, options.get("k", 4), "no answer: its first calls take too long")
    try:
        while receiver.poll(max(0.0, deadline - time.monotonic())):
            message = receiver.recv()
            if message is None:
                return verdict
            if message == "":  # the function was loaded
                deadline = min(deadline, time.monotonic() + limit)
                continue
            if isinstance(message, str):
                raise LabError(message)
            verdict = message
            progress(verdict)
        end = f"ended after {time.monotonic() - start:.0f} s"
        return replace(verdict, seen=f"{verdict.seen}; {end}".lstrip("; "))
    except EOFError:
        process.join()
        line = f"does not run: it ends the process with exit code {process.exitcode}"
        return Verdict(path, verdict.k, line, verdict.seen)
    finally:
        process.kill()
        process.join()


def check_class(environment: type, path: str) -> Verdict:
    """Return the verdict on a user's class as an environment."""
    from maxk_lab.environments.contract import contract
    from maxk_lab.environments.custom import METHODS, missing_methods

    if missing := missing_methods(environment):
        lacks = f"is no environment: it lacks {', '.join(missing)}"
        return Verdict(path, 0, lacks, change=f"give the class the methods {', '.join(METHODS)}")
    laws = tuple(Law(name, not problem, problem, True) for name, problem in contract(environment))
    ok = all(law.holds for law in laws)
    verdict = "keeps the contract of an environment" if ok else "is no environment"
    return Verdict(path, 0, verdict, ok=ok, laws=laws)


def _work(sender: Connection, path: str, options: dict[str, Any]) -> None:
    """Send every verdict, then None; send a message if there is no such function."""
    # Output and warnings of the function are not part of the answer.
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    # The parent process does not import torch.
    from maxk_lab.own.check import check_steps
    from maxk_lab.own.functions import load_function

    try:
        function = load_function(path)
        sender.send("")
        if isinstance(function, type):
            sender.send(check_class(function, path))
            sender.send(None)
            return
        for judge in check_steps(function, name=path, **options):
            sender.send(judge())
        sender.send(None)
    except LabError as error:
        sender.send(str(error))
