"""The HTTP side of the API server: HTTPS, routing, content negotiation, discovery, OpenAPI, tables, watches.

`App.handle` authenticates and authorises a request and calls the verbs; the other modules turn bytes into
calls and answers into bytes. May import every package of the cluster except `actors`, which use it through
`local`.
"""
