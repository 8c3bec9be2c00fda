"""Words for people of what Ray says of a loss."""

from __future__ import annotations


def reason(error: Exception) -> tuple[str, str]:
    """Return for people what became of a task, and all that Ray says of it where that says more.

    The first goes into records, which are handed on: no addresses or paths of nodes stand in it.
    """
    told = {
        "NodeDiedError": "its node is gone",
        "WorkerCrashedError": "its process on the node has died",
        "OutOfMemoryError": "Ray ended its process, for the node ran out of memory",
        "ObjectLostError": "its node is gone with what it had measured",
    }
    kinds = [told[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in told]
    return (kinds[0], "") if kinds else (f"Ray has lost it: {type(error).__name__}", str(error))


def last_line(error: Exception) -> str:
    """Return the line of a remote traceback that says what was wrong."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
