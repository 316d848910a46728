"""How fast Grove makes pods run, measured on the loopback: `python -m bench`.

Three processes: the embedded cluster, the operator as `grove run` starts it, and a driver that applies a set
and watches. Needs no cluster and no network, ends by itself, and leaves no process behind.
"""
