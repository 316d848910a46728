"""The algorithms of Kubernetes' API machinery, as pure functions over plain objects.

Schemas and CEL rules, patches, server-side apply, conversion, selectors, quantities, metadata, options of
requests. May import `data` and the values `errors`, `identity` and `resource_type`; no other package.
"""
