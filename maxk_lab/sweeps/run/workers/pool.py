"""The worker processes of a run, and the guard that ends them when their parent cannot."""

from __future__ import annotations

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.workers.devices import Devices
from maxk_lab.sweeps.run.workers.guard import Guard
from maxk_lab.sweeps.run.workers.process import Worker, stop


class Pool:
    """The workers that run, at most `size`, started as they are needed."""

    def __init__(self, size: int, devices: Devices) -> None:
        self._size, self._guard, self._devices = size, Guard(), devices
        self.workers: list[Worker] = []

    def close(self) -> None:
        """End every worker, and the guard."""
        stop(self.workers)
        self._guard.close()

    def fill(self, waiting: int, *, on_device: bool) -> None:
        """Start workers, if there is work for more of them; they see devices if it needs any."""
        idle = sum(worker.task is None for worker in self.workers)
        for _ in range(min(self._size - len(self.workers), waiting - idle)):
            devices = self._devices.take(on_device)
            try:
                self.workers.append(Worker(self._guard, devices))
            except OSError as error:
                self._devices.give(devices)
                if self.workers:
                    return  # those that run do the work
                raise RefusedError(f"no worker process can be started: {error.strerror}") from error

    def remove(self, worker: Worker) -> None:
        """End a worker, of which nothing good is to be expected."""
        worker.kill()
        self._devices.give(worker.devices)
        self.workers.remove(worker)
