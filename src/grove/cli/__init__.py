"""The commands: run, up, demo, render, tree, rollout, crds, install, config, doctor, bundle, completion,
backend, upgrade, version.

Data on stdout, messages on stderr.
"""
