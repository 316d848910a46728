"""Admission webhooks: what an API server asks before it stores an object of ours, over HTTPS.

They refuse what the operator could not carry out, with the reason, where its author looks. Whether a set can
be carried out is decided in `grove.admission`, which the controllers ask as well: a cluster without webhooks
is as safe, only later. Nothing here writes to a cluster.
"""
