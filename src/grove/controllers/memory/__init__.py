"""What the operator remembers of single objects between two reconciles, dropped when the object is gone.

Nothing here decides: decisions are made in `plan/` and `admission/` and take what is remembered as values.
"""
