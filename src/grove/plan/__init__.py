"""What should exist and what to do next: (observed, now) -> values. Pure."""
