"""RS1 of the Go operator's end-to-end suite: claims of all three levels, as a set, what it leads to and what is refused."""

from collections.abc import Callable, Iterable
from typing import Final

from tests.scenarios.stories import device

from grove.meta import Manifest
from grove.testing import make

NAME: Final = "rs"
OWN: Final = ("one", "two", "three")
PART_OF: Final = "app.kubernetes.io/part-of"
#: Every class of devices that a claim asks for.
CLASSES: Final = tuple(f"{each}.example.com" for each in (*OWN, "outside"))


def shared(name: str, scope: str, **more: object) -> Manifest:
    return {"name": name, "scope": scope, **more}


def workload(*, elsewhere: str = "other") -> Manifest:
    """Two claims of the whole set, two of each replica, three and two for each group replica, three of a clique.

    One template of them is in the namespace `elsewhere`.
    """
    alone = make.template("alone", 1) | {
        "resourceSharing": [
            shared("one", "AllReplicas"),
            shared("two", "AllReplicas"),
            shared("three", "PerReplica"),
        ]
    }
    member = make.template("member", 1) | {"resourceSharing": [shared("one", "AllReplicas")]}
    group = make.scaling_group("group", ["member"], replicas=2) | {
        "resourceSharing": [
            shared("two", "AllReplicas", filter={"childCliqueNames": ["member"]}),
            shared("three", "PerReplica"),
        ]
    }
    return make.cliqueset_manifest(
        "rs",
        [alone, member],
        groups=[group],
        template={
            "resourceClaimTemplates": [
                {"name": each, "templateSpec": {"spec": device(each)}} for each in OWN
            ],
            "resourceSharing": [
                shared("one", "AllReplicas"),
                shared(
                    "outside",
                    "AllReplicas",
                    namespace=elsewhere,
                    filter={"childScalingGroupNames": ["group"]},
                ),
                shared("two", "PerReplica", filter={"childCliqueNames": ["alone"]}),
                shared("three", "PerReplica"),
            ],
        },
    )


#: How many claims there are after each step: the kind and name of what is scaled, and to how many replicas.
CLIQUE, GROUP = ("PodClique", "rs-0-alone"), ("PodCliqueScalingGroup", "rs-0-group")
SET = ("PodCliqueSet", NAME)
STEPS: Final = (
    (GROUP, 1, 10),
    (GROUP, 3, 14),
    (CLIQUE, 2, 15),
    (CLIQUE, 1, 14),
    (SET, 2, 24),
    (SET, 1, 14),
)
FIRST: Final = 12


def wanted_claims(pods: int = 1, groups: int = 2) -> dict[str, list[str]]:
    """By hostname, the claims of each pod of the first replica, in their order."""
    alone = ["rs-all-one", "rs-0-two", "rs-0-three", "rs-0-alone-all-one", "rs-0-alone-all-two"]
    members = {
        f"rs-0-group-{number}-member-0": [
            "rs-all-one",
            "rs-all-outside",
            "rs-0-three",
            "rs-0-group-all-two",
            f"rs-0-group-{number}-three",
            f"rs-0-group-{number}-member-all-one",
        ]
        for number in range(groups)
    }
    return {
        **{f"rs-0-alone-{number}": [*alone, f"rs-0-alone-{number}-three"] for number in range(pods)},
        **members,
    }


def used(pods: Iterable[Manifest]) -> dict[str, list[str]]:
    """By hostname, the claims that a pod and each of its containers use."""
    found = {}
    for pod in pods:
        claims = pod["spec"]["resourceClaims"]
        assert [each["name"] for each in claims] == [each["resourceClaimName"] for each in claims]
        for container in pod["spec"]["containers"]:
            assert container["resources"]["claims"] == [{"name": each["name"]} for each in claims]
        found[pod["spec"]["hostname"]] = [each["resourceClaimName"] for each in claims]
    return found


def assert_owned(claims: Iterable[Manifest], owners: Iterable[Manifest]) -> None:
    """Every claim says of which set it is, and belongs to one of these."""
    uids = {each["metadata"]["uid"] for each in owners}
    for claim in claims:
        metadata = claim["metadata"]
        (owner,) = metadata["ownerReferences"]
        assert owner["controller"], metadata["name"]
        assert owner["uid"] in uids, metadata["name"]
        assert metadata["labels"][PART_OF] == NAME, metadata["name"]


# What is refused ----------------------------------------------------------------------------------

Edit = Callable[[Manifest], None]


def rescoped(shared: list[Manifest]) -> None:
    shared[0]["scope"] = {"AllReplicas": "PerReplica", "PerReplica": "AllReplicas"}[shared[0]["scope"]]


EDITS: Final[dict[str, tuple[Edit, str]]] = {
    "of a set": (lambda template: rescoped(template["resourceSharing"]), "spec.template.resourceSharing"),
    "of a group": (
        lambda template: rescoped(template["podCliqueScalingGroups"][0]["resourceSharing"]),
        "spec.template.podCliqueScalingGroups[0].resourceSharing",
    ),
    "of a role": (
        lambda template: rescoped(template["cliques"][0]["resourceSharing"]),
        "spec.template.cliques[0].resourceSharing",
    ),
    "what a template says": (
        lambda template: template["resourceClaimTemplates"][0]["templateSpec"].update(spec=device("other")),
        "spec.template.resourceClaimTemplates",
    ),
}
