"""The commands: run, up, demo, render, tree, crds. Data on stdout, talk on stderr."""
