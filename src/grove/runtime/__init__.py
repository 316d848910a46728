"""How a controller runs: informer, store, queue, barrier, loop, manager, leases, clock, events, metrics."""
