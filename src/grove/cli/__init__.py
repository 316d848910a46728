"""The commands: run, up, demo, render, tree, rollout, crds, config, doctor, bundle, completion, backend,
upgrade, version.

Data on stdout, messages on stderr.
"""
