"""Who may talk to the server and what they may do: tokens, RBAC, review APIs, certificates, the kubeconfig.

May import `verbs`, because ServiceAccounts are stored objects, and what is below it; never `server`.
"""
