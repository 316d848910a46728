"""Gangs in the words of Kubernetes' own scheduling API, in the three generations that exist of it.

`generation` finds out what the cluster offers, `modes` chooses how a gang is said in it, `objects` writes the
objects, `linking` ties pods to them, `reading` reads the verdict. `backends.default` is their only user.
"""
