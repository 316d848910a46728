"""What the operator knows of schedulers: enabled backends, what the cluster serves, objects, events."""
