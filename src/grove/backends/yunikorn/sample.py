"""A cluster with YuniKorn, which brings no kinds: everything is on the pods."""

from typing import Final

from grove.backends.base import Cluster
from grove.backends.sample import Sample

SAMPLE: Final = Sample("YuniKorn", lambda _: Cluster(), has_objects=False)
