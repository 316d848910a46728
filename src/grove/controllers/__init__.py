"""When and in what order: one module per kind, plus apply, wake-ups and events. The imperative deps."""
