"""Simulated schedulers: they decide as the real ones do, say it in their words, and bind through the API."""
