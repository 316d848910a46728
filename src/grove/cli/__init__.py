"""The commands: run, up, demo, render, tree, rollout, crds, backend, upgrade, version.

Data on stdout, messages on stderr.
"""
