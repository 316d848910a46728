"""The cluster that needs no cluster: an API server over real HTTP for kubectl, with simulated actors."""
