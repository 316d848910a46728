"""The decisions: what should exist and what to do next, from what was observed and `now`. Pure."""
