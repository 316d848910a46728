"""The reconcilers: one module for each kind, plus the applier, wake-ups, pacing and events.."""
