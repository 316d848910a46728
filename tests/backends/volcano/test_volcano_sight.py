"""What Volcano would pass over in silence is seen, said, and waited for; what is not known is no reproach."""

import pytest
from tests.backends.volcano.volcanoes import RACK, TIERS, V114, config_map, queue, seen, volcano

from grove.api.gang import PodGang
from grove.backends.base import Capability, Cluster, Context, Fidelity
from grove.backends.volcano import VolcanoBackend
from grove.backends.volcano.sight import CONFIG_MAPS, HYPERNODES, QUEUES
from grove.errors import Waiting
from grove.meta import Manifest
from grove.testing import make

BACKEND = VolcanoBackend()
PLAIN = make.gang("g", {"a": 1}, annotations={"scheduling.volcano.sh/queue-name": "q"})
RACKED = make.gang("g", {"a": 1}, required=RACK)
NEAR = make.gang("g", {"a": 1}, preferred=RACK)
NO_HYPERNODES = Cluster({"scheduling.volcano.sh/v1beta1": frozenset({"podgroups", "queues"})}, V114.fields)

_R1 = {"type": "HyperNode", "selector": {"exactMatch": {"name": "r1"}}}
TANGLED: tuple[Manifest, ...] = tuple(
    {"metadata": {"name": name}, "spec": {"tier": 2, "tierName": RACK, "members": [_R1]}}
    for name in ("z1", "z2")
)
WAITING: dict[str, tuple[PodGang, Context, str]] = {
    "no such queue": (PLAIN, volcano(observed=seen(queues=(queue("default"),))), "Volcano has no queue 'q'"),
    "a closed queue": (
        PLAIN,
        volcano(observed=seen(queues=(queue("q", "Closed"),))),
        "queue 'q' is Closed and takes no gangs until it is Open",
    ),
    "a queue that nobody opened": (
        PLAIN,
        volcano(observed=seen(queues=(queue("q", None),))),
        "queue 'q' has no state and takes no gangs until it is Open",
    ),
    "no such tier": (
        RACKED,
        volcano(observed=seen(tiers={"block": 1})),
        r"requires one example.com/rack: no HyperNode has the tierName 'example.com/rack' \(there are: block\)",
    ),
    "no HyperNodes": (RACKED, volcano(observed=seen(tiers={})), r"\(there are: none\)"),
    "no kind of HyperNodes": (
        RACKED,
        volcano(NO_HYPERNODES),
        "does not serve hypernodes.topology.volcano.sh",
    ),
    "the plugin is off": (
        RACKED,
        volcano(observed=seen(config=(config_map("gang"),))),
        "the plugin network-topology-aware is not in the ConfigMap volcano-system/volcano-scheduler-configmap",
    ),
    "the plugin is only in a comment": (
        RACKED,
        volcano(observed=seen(config=(config_map("gang # network-topology-aware"),))),
        "the plugin network-topology-aware is not in",
    ),
    "a configuration that nobody can read": (
        RACKED,
        volcano(observed=seen(config=({"data": {"volcano-scheduler.conf": "tiers: [}"}},))),
        "the plugin network-topology-aware is not in",
    ),
    "no configuration": (RACKED, volcano(observed=seen(config=())), "there is no ConfigMap volcano-system/"),
    "a configuration that may not be read": (
        RACKED,
        volcano(observed={QUEUES: (queue("default"),), HYPERNODES: seen()[HYPERNODES]}),
        "Grove has not seen the ConfigMap .* networkTopology: Enabled",
    ),
    "a HyperNode in two others": (
        RACKED,
        volcano(observed={**seen(), HYPERNODES: TANGLED}),
        "HyperNode 'r1' is a member of both 'z1' and 'z2'",
    ),
    "numbers of tiers that may not be read": (
        make.gang("g", [make.podgroup("a", 1, required=RACK), make.podgroup("b", 1)]),
        volcano(observed={}, networkTopology="Enabled"),
        "Grove has not seen the HyperNodes, whose tiers the PodGroup must name",
    ),
    "HyperNodes that may not be read": (
        RACKED,
        volcano(observed={CONFIG_MAPS: seen()[CONFIG_MAPS]}),
        "Grove has not seen the HyperNodes",
    ),
}


@pytest.mark.parametrize("name", WAITING)
def test_a_gang_waits_for(name: str) -> None:
    gang, context, text = WAITING[name]
    with pytest.raises(Waiting, match=text):
        BACKEND.translate(gang, context)


GOES_ON: dict[str, tuple[PodGang, Context]] = {
    "nothing is known of the queues": (PLAIN, volcano(observed={})),
    "the profile vouches for the plugin": (
        RACKED,
        volcano(observed=seen(config=()), networkTopology="Enabled"),
    ),
    "the profile vouches for what may not be read": (RACKED, volcano(observed={}, networkTopology="Enabled")),
    "another queue is closed": (PLAIN, volcano(observed=seen(queues=(queue("q"), queue("x", "Closed"))))),
}


@pytest.mark.parametrize("name", GOES_ON)
def test_a_gang_goes_on_although(name: str) -> None:
    gang, context = GOES_ON[name]
    assert len(BACKEND.translate(gang, context).manifests) == 1


def told(gang: PodGang, *conditions: str) -> PodGang:
    """The gang with conditions that hold."""
    manifest = make.gang_manifest("g", {"a": 1}, required=RACK)
    manifest["status"] = {
        "conditions": [{"type": each, "status": "True", "reason": "R", "message": ""} for each in conditions]
    }
    return make.view(PodGang, manifest)


def test_a_gang_that_is_placed_does_not_care_what_became_of_the_installation() -> None:
    broken = seen(queues=(), tiers={}, config=())
    placed = told(RACKED, "Initialized", "Scheduled")
    assert len(BACKEND.translate(placed, volcano(observed=broken)).manifests) == 1


def test_after_a_restart_a_known_gang_is_not_reproached_for_what_is_not_seen_yet() -> None:
    known = told(RACKED, "Initialized")
    [made] = BACKEND.translate(known, volcano(observed={})).manifests
    assert made["spec"]["networkTopology"] == {"mode": "hard", "highestTierName": RACK}
    with pytest.raises(Waiting):
        BACKEND.translate(known, volcano(observed=seen(config=(config_map("gang"),))))


PREFERENCES: dict[str, tuple[Context, Manifest | None]] = {
    "all is well": (volcano(), {"mode": "soft"}),
    "not seen yet": (volcano(observed={}), {"mode": "soft"}),
    "no such tier": (volcano(observed=seen(tiers={})), None),
    "the plugin is off": (volcano(observed=seen(config=(config_map("gang"),))), None),
}


@pytest.mark.parametrize("name", PREFERENCES)
def test_a_preference_that_would_be_ignored_is_left_out_and_reported(name: str) -> None:
    context, want = PREFERENCES[name]
    translation = BACKEND.translate(NEAR, context)
    [made] = translation.manifests
    assert made["spec"].get("networkTopology") == want
    [preferred] = [each for each in translation.treatments if each.property == Capability.TOPOLOGY_PREFERRED]
    assert (preferred.fidelity is Fidelity.NOT_EXPRESSIBLE) is (want is None)


def test_a_queue_that_opens_changes_what_is_concluded_but_blocks_no_other_gang() -> None:
    shut, opened = (
        BACKEND.preconditions(volcano(observed=seen(queues=(queue("q", state),))))
        for state in ("Closed", "Open")
    )
    assert shut != opened
    assert not any(each.missing for each in [*shut, *opened])


def test_of_several_tiers_of_one_name_the_widest_counts() -> None:
    observed = seen(tiers=TIERS)
    assert BACKEND.translate(RACKED, volcano(observed=observed)).manifests
    garbage: tuple[Manifest, ...] = ({}, {"spec": None}, {"spec": {"tier": "x", "tierName": RACK}})
    with pytest.raises(Waiting, match="there are: none"):
        BACKEND.translate(RACKED, volcano(observed={**observed, HYPERNODES: garbage}))
