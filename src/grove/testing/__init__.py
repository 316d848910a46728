"""The shipped test kit: object builders, backend conformance, in-process transport, virtual time."""
