"""The read model: sets, gangs, cliques and pods as they are, and why what does not run does not. Pure."""
