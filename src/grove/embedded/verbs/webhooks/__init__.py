"""Dynamic admission: webhooks that are configured in the cluster are asked about writes.

`question` is what they are asked, `matching` which of them are, `services` and `calling` how they are
reached, `answers` what counts as an answer, and `dispatch` in which order all of that happens.
"""
