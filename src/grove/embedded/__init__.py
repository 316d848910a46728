"""The cluster that needs no cluster: an API server over real HTTP for kubectl, with simulated actors.

`cluster.py` puts everything together. The packages, each importing only those further down (`make check`
enforces it):

- `actors`: garbage collector, kubelets, schedulers; they reach the server through the client in `local.py`
- `server`: HTTPS, routing, content negotiation, discovery, OpenAPI, tables
- `access`: authentication, RBAC, certificates, kubeconfig
- `verbs`: create, update, patch, delete, list and watch, with admission
- `kinds`: which kinds are served, and the rules of each; `storage`: the store and its journal
- `machinery`: schemas, CEL, patches, server-side apply, selectors
- `data`: schemas and field tables of Kubernetes itself

The modules beside them are also imported from outside: the cluster and its clients, clocks, faults, the log
of requests, users and errors.
"""
