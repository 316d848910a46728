"""What an installation of Grove consists of: for `grove install`, kustomize and the chart."""
