"""How fast Grove makes pods run, measured on the loopback: `python -m bench`.

The operator as `grove run` starts it, a driver that applies a set and watches, and a control plane: the
embedded cluster in one process, or the real programs of Kubernetes with nodes that are played. Needs no
cluster and no network, ends by itself, and leaves no process behind.
"""
