"""A fork server: a process that has imported what units need, and whose copies measure them.

It is a program of its own at the end of a socket pair. With each request comes the line to a child,
and the first words on that are the number of the process that was forked, which has a process group
of its own.
When the driver's end closes, because the driver has ended or died, the server kills the groups of
all its children. `ForkServer` and `Child` are the driver's ends; `main` is the program.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import wait
from typing import Any

from maxk_lab.errors import LabWarning
from maxk_lab.execution.backends.backend import Task
from maxk_lab.execution.supervisor.child import work
from maxk_lab.installed import open_project_folders
from maxk_lab.seeds import seed_generators

# Those that end a run; what it has started hears of them from the driver alone.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Libraries of macOS do not outlive a fork: there each child is a new program.
FORKS = sys.platform != "darwin"
# A copy of a process that has computed with several threads hangs. A check for CUDA that asks the
# driver, and not its library, leaves the devices to the copies.
_ENVIRONMENT = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"
) | {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
_PROGRAM = (
    "import sys; line, argument, sys.path[:] = int(sys.argv[1]), sys.argv[2], sys.argv[3:]; "
    "from maxk_lab.execution.supervisor.{module} import main; main(line, argument)"
)
# Seconds for an answer, which takes some hundredths of one, for the end of a server, and between
# two looks at who has ended.
_PATIENCE, _GRACE, _TICK = 30.0, 2.0, 0.02
_PR_SET_PDEATHSIG = 1
# The bytes that are read at once.
_PART = 2**16


class Child:
    """A process that measures units, as its driver sees it; `pid` is that of its group, too."""

    def __init__(self, pid: int, line: socket.socket, devices: str | None) -> None:
        self.pid, self.line, self.devices = pid, line, devices
        # The exit code of one that has ended, minus the number of the signal where it was killed.
        self.code: int | None = None
        self.born = self.since = time.monotonic()
        # Whether it waits for another task.
        self.idle = False
        self._unread = b""
        line.setblocking(False)

    @property
    def ending(self) -> str:
        """The way in which the process ended, e.g. `signal SIGKILL`, or `exit code 9`."""
        if self.code is not None and self.code < 0:
            with suppress(ValueError):  # a real-time signal has no name
                return f"signal {signal.Signals(-self.code).name}"
            return f"signal {-self.code}"
        return f"exit code {self.code}"

    def begin(self, task: Task) -> None:
        """Give it a task."""
        self.line.settimeout(_PATIENCE)
        with suppress(OSError):  # it has just died, as its server will tell
            self.line.sendall(pickle.dumps(task))
        self.line.setblocking(False)

    def leave(self) -> None:
        """Ask it to leave its task where that can go on later, and to end."""
        self.idle = False
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill the process and all that it has started."""
        if self.code is None:
            kill_group(self.pid)

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what it has told since the last call, without waiting."""
        while True:
            try:
                part = self.line.recv(_PART)
            except OSError:
                return
            if not part:
                self.kill()  # a function of the user has closed the line
                return
            *lines, self._unread = (self._unread + part).split(b"\n")
            yield from map(json.loads, lines)


class ForkServer:
    """A server as its driver sees it: it imports `lab`, the user's `own`, and starts children.

    It ends without being `ready` where the user's modules end it, take longer than `patience`, or
    leave threads behind, which no copy of the process would have. Raises `OSError` where no process
    can be started.
    """

    def __init__(self, lab: Iterable[str], own: Iterable[str], patience: float) -> None:
        self.ready = self.ended = False
        self._children: dict[int, Child] = {}
        self._unread = b""
        self.line, theirs = socket.socketpair()
        with theirs:
            modules = {"lab": sorted(lab), "own": sorted(own), "patience": patience}
            self._process = _started("fork_server", theirs, modules | {"forks": FORKS})
        self.pid = self._process.pid

    def start(self, devices: str | None) -> Child:
        """Start a child that sees these CUDA devices; None is whatever this process sees.

        Raises `OSError` where the system has no room for another process.
        """
        ours, theirs = socket.socketpair()
        with theirs, suppress(BrokenPipeError):  # it has ended, as the end of the line tells
            socket.send_fds(self.line, [json.dumps(devices).encode()], [theirs.fileno()])
        answer = b""
        ours.settimeout(_PATIENCE)
        with suppress(OSError):
            answer = ours.recv(_PART)
        if not answer:
            self._lose()
        if (pid := int(answer or -errno.ECHILD)) < 0:
            ours.close()
            raise OSError(-pid, os.strerror(-pid))
        child = self._children[pid] = Child(pid, ours, devices)
        return child

    def listen(self) -> None:
        """Take in, without waiting, what it has told: how far it is, and who has ended."""
        while not self.ended and wait([self.line], 0):
            part = b""
            with suppress(OSError):
                part = self.line.recv(_PART)
            if not part:
                self._lose()
            *lines, self._unread = (self._unread + part).split(b"\n")
            for pid, code in map(json.loads, lines):
                if pid == self.pid:
                    self.ready = True
                elif (child := self._children.pop(pid, None)) is not None:
                    child.code = code
        # What a module has forked may hold the other end of the line.
        if self._process.poll() is not None:
            self._lose()

    def close(self) -> None:
        """End the server and its children."""
        self.line.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        self._lose()
        self._process.wait()

    def _lose(self) -> None:
        """Take note of its end. What is left of it goes with it, and so do its children."""
        self.ended = True
        kill_group(self.pid)
        for child in self._children.values():
            child.kill()
            child.code = -signal.SIGKILL
        self._children.clear()


def kill_group(group: int) -> None:
    """Kill every process of a group, if any is left."""
    # PermissionError: macOS says so of processes that have ended already.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _started(module: str, line: socket.socket, argument: Any) -> subprocess.Popen[bytes]:
    """Start `main` of one of our modules as a program of its own.

    What it prints goes to stderr, since stdout is for the results of a verb.
    """
    command = [sys.executable, "-c", _PROGRAM.format(module=module), str(line.fileno())]
    return subprocess.Popen(
        [*command, json.dumps(argument), *sys.path],
        pass_fds=[line.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=2,
        env=os.environ | _ENVIRONMENT,
        # Ctrl-C in a terminal is for the driver, which decides what becomes of its children.
        start_new_session=True,
    )


def main(number: int, argument: str) -> None:
    """Import what is asked for, start children until the line ends, and kill what is left."""
    line, asked = socket.socket(fileno=number), json.loads(argument)
    warnings.simplefilter("ignore", LabWarning)  # the driver warns
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    running: set[int] = set()
    try:
        going = _import(line, asked["lab"], asked["own"], asked["patience"])
        # Whatever a module has made of it.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if going:
            _tell(line, os.getpid(), 0)
        while going:
            if select.select([line], [], [], _TICK if running else None)[0]:
                going = _answered(line, running, forks=asked["forks"])
            _collect(line, running)
    finally:
        for pid in running:
            kill_group(pid)
        # With what the user's modules have started when they were imported.
        kill_group(os.getpid())


def _import(line: socket.socket, lab: Iterable[str], own: Iterable[str], patience: float) -> bool:
    """Import what can be imported. Return whether copies of the process would have all of it.

    A unit that needs what cannot be imported meets the same error, in its record. The end of the
    driver ends the process meanwhile, and so does a clock, whatever an import is at.
    """
    _end_with_parent(signal.SIGKILL)
    if select.select([line], [], [], 0)[0]:
        return False  # the driver had ended before
    # A module that draws when it is imported draws the same in every run.
    seed_generators(0)
    for module in lab:
        with suppress(Exception):
            import_module(module)
    if "torch" in sys.modules:
        # What optimisers and tests import when they are first used: every child would pay for it.
        import_module("torch._dynamo")
        import_module("scipy.special")
    threads = _threads()
    signal.setitimer(signal.ITIMER_REAL, patience)
    open_project_folders()
    for module in own:
        # Signals are ignored here: what is raised is the module's own.
        with suppress(BaseException):
            import_module(module)
    signal.setitimer(signal.ITIMER_REAL, 0)
    _end_with_parent(0)
    # So that the collector of a child does not write to, and so copy, what all of them share.
    gc.collect()
    gc.freeze()
    return _threads() == threads


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def _answered(line: socket.socket, running: set[int], *, forks: bool) -> bool:
    """Start the child that is asked for. Return whether there was anybody to ask."""
    try:
        devices, theirs, _, _ = socket.recv_fds(line, _PART, 1)
    except OSError:
        return False
    if not theirs:
        return False
    with socket.socket(fileno=theirs[0]) as end:
        try:
            if forks:
                pid = _forked(end, json.loads(devices), line)
            else:
                process = _started("child", end, json.loads(devices))
                process.returncode = 0  # or `subprocess` would collect it before us
                pid = process.pid
            running.add(pid)
        except OSError as error:
            pid = -(error.errno or errno.EAGAIN)
        with suppress(OSError):  # the driver is gone
            end.sendall(b"%d" % pid)
    return True


def _forked(end: socket.socket, devices: str | None, line: socket.socket) -> int:
    """Start a child at the `end` of its line, without that of the server; return its number."""
    server = os.getpid()
    pid = os.fork()
    if pid:
        with suppress(OSError):  # it has one already, or has ended
            os.setpgid(pid, pid)
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        # Ray kills the server with its driver.
        _end_with_parent(signal.SIGKILL)
        if os.getppid() == server:
            line.close()
            work(end, devices)
            code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _end_with_parent(number: int) -> None:
    """Have the system send this signal to this process when its parent ends; 0 is none."""
    with suppress(AttributeError):  # a system without it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)


def _tell(line: socket.socket, pid: int, code: int) -> None:
    """Tell that this process is ready, by its own number, or how a child has ended."""
    with suppress(OSError):  # the driver is gone, which the next look at the line tells
        line.sendall(json.dumps([pid, code]).encode() + b"\n")


def _collect(line: socket.socket, running: set[int]) -> None:
    """Tell which children have ended; what they had started ends, too."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        if pid in running:
            kill_group(pid)
            running.remove(pid)
            _tell(line, pid, os.waitstatus_to_exitcode(status))
