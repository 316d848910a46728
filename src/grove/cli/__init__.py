"""The commands: run, up, demo, render, tree, crds, backend, version. Data on stdout, messages on stderr."""
