"""How long certificates hold, and how long a step of a rotation waits until all have seen the last one."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

#: Certificates begin so long in the past: the clocks of an API server and of an operator need not agree.
SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Periods:
    """The times of a rotation."""

    #: Lifetimes.
    authority: timedelta = timedelta(days=3650)
    server: timedelta = timedelta(days=365)
    #: So long before its end a certificate is replaced.
    ahead: timedelta = timedelta(days=90)
    #: So long has an authority been in every caBundle before anything that it signed is served. An API server
    #: learns of a caBundle by a watch: within a second, or within a minute if it must watch again.
    trusted: timedelta = timedelta(minutes=10)
    #: So long has a certificate been in the Secret before authorities that it does not need are dropped. A
    #: replica reads the Secret every minute; one that cannot for almost as long as this is not ready.
    retired: timedelta = timedelta(hours=24)
