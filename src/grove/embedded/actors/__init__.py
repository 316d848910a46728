"""Those who act in the embedded cluster: garbage collector, kubelets, schedulers.

Every actor speaks only the public verbs of an API server (`ActorClient`), so each of them can also be pointed
at another one. None of them looks into the store.
"""
