"""Grove: multi-role AI workloads, scheduled all-or-nothing by whatever scheduler the cluster runs."""

__version__ = "0.1.0"
