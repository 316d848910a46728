"""What the API server does with objects, without HTTP: create, update, patch, delete, list, watch, scale.

Every write passes through `api.py`, which calls admission (built in, ServiceAccounts, webhooks), the rules of
the kind and the store. May import `kinds`, `storage` and `machinery`; whether a user may do what they ask has
been decided before.
"""
