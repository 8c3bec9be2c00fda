"""The worker processes of a run, and the guard that ends them when their parent cannot."""

from __future__ import annotations

from maxk_lab.errors import RefusedError
from maxk_lab.sweeps.run.workers.guard import Guard
from maxk_lab.sweeps.run.workers.process import Worker, stop


class Pool:
    """The workers that run, at most `size`, started as they are needed."""

    def __init__(self, size: int) -> None:
        self._size, self._guard = size, Guard()
        self.workers: list[Worker] = []

    def close(self) -> None:
        """End every worker, and the guard."""
        stop(self.workers)
        self._guard.close()

    def fill(self, waiting: int) -> None:
        """Start workers, if there is work for more of them."""
        idle = sum(worker.task is None for worker in self.workers)
        for _ in range(min(self._size - len(self.workers), waiting - idle)):
            try:
                self.workers.append(Worker(self._guard))
            except OSError as error:
                if self.workers:
                    return  # those that run do the work
                raise RefusedError(f"no worker process can be started: {error.strerror}") from error

    def remove(self, worker: Worker) -> None:
        """End a worker, of which nothing good is to be expected."""
        worker.kill()
        self.workers.remove(worker)
