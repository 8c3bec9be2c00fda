"""Leases: several processes, also of several machines, share the units of one run.

A `Driver` is registered while its process works in a run, and shows every few seconds that it
lives. It takes a `Lease` of a unit before it measures it; no two living drivers have the same unit:

    with Driver(run.root, spec_hash=hash_of_the_spec) as driver:
        driver.remove_leftovers([run.root, run.cells_path, run.cache_path])  # if no other lives
        while ...:
            driver.check()                # StorageError: it cannot show that it lives, so stop
            lease = driver.take(unit_id)
            if lease is None:             # a living driver has it: try again later
                continue
            ...                           # look at the records again: it may be done by now
            if not lease.held:            # it was presumed dead, and another one has the unit:
                ...                       # cancel it, and write nothing more of it
            lease.release()
        driver.lost()                     # the units of all its leases that hold no more, at once

`with driver.alone("--force")` refuses to begin while others live, and keeps
those that register waiting; `exclusive(root)` does the same for commands that are no run.
`registered(root)` tells who is there without being one of them, and `held(root)` who has what.
"""

from maxk_lab.sweeps.run.leases.driver import Driver, exclusive, held
from maxk_lab.sweeps.run.leases.info import DriverInfo
from maxk_lab.sweeps.run.leases.lease import Fence, Lease
from maxk_lab.sweeps.run.leases.registration import OthersError, registered

__all__ = [
    "Driver",
    "DriverInfo",
    "Fence",
    "Lease",
    "OthersError",
    "exclusive",
    "held",
    "registered",
]
