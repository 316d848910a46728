"""The rules of the backend contract, by subject; `grove.testing.conformance` puts them together."""
