"""The commands: run, up, demo, render, tree, rollout, crds, config, doctor, backend, upgrade, version.

Data on stdout, messages on stderr.
"""
