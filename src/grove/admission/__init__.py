"""What may be stored: defaults and validation as functions on values. Pure."""
