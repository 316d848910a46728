"""Updates: which template each replica of a set follows, and what is replaced next. Pure.

A changed template reaches a set replica by replica: `replicas` chooses whose turn it is, `groups` which
replica of a scaling group, `pods` which pod of a clique. What was chosen is written into a status before
anything is taken down, so that an operator that crashed goes on with the same one. `revisions` keeps the
templates that replicas still follow.
"""
