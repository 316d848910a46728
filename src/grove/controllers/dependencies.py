"""What every reconciler depends on (cache, applier, schedulers, clock and so on), in one value."""

from dataclasses import dataclass, field

from grove.controllers.apply import Applier
from grove.controllers.devices import Devices
from grove.controllers.memory.disruptions import Disruptions
from grove.controllers.memory.liveness import Liveness
from grove.controllers.memory.milestones import Milestones
from grove.controllers.memory.preemptions import Preemptions
from grove.controllers.memory.vanished import Vanished
from grove.controllers.removal import Removal
from grove.controllers.report import Reporter
from grove.controllers.schedulers.scheduling import Scheduling
from grove.meta import Key
from grove.runtime.cache import Cache
from grove.runtime.clock import Clock
from grove.runtime.events import Recorder


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Reads come from `cache`, writes go through `applier`, statuses through `reporter`.

    `liveness` is asked before something is created for the same object once more.
    """

    cache: Cache
    applier: Applier
    reporter: Reporter
    liveness: Liveness
    scheduling: Scheduling
    recorder: Recorder
    milestones: Milestones
    preemptions: Preemptions
    disruptions: Disruptions
    vanished: Vanished
    devices: Devices
    removal: Removal
    clock: Clock
    #: Gangs whose gates are being opened; `removal` knows those that are being deleted. Never both at once.
    opening: set[Key] = field(default_factory=set)
