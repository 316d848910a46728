"""The cluster that needs no cluster: an API server over real HTTP that kubectl can talk to, with simulated actors."""
