"""How a controller runs: informer, store and index, queue, barrier, loop, manager, leases, clock, events, metrics."""
