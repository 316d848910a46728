"""`grove wait-for`: the init container that waits until the pods of other cliques are ready.

Called as the Go operator's `grove-initc`. Uses the standard library alone and imports nothing else of Grove,
so that its image holds this folder and Python: `python -m grove.wait_for --podcliques=llm-0-frontend:2`.

`tally` counts, `program` decides what to ask the API server next, and both do no I/O: the embedded cluster
runs them on virtual time. `connection` and `reporting` are what the real program adds.
"""
