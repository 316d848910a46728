"""Where objects are kept: the store in memory with its revisions and watches, and the journal on disk.

Knows tables, keys and revisions, but neither kinds nor schemas. Of the cluster it may import `errors` only.
"""
