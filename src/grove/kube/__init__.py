"""How we speak to an API server: requests, watch, errors, patches, kubeconfig. Knows no gangs."""
