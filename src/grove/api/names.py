"""Every generated name and its inverse; nobody else formats or parses a name.

`P` is the set, `i` its replica, `G` a scaling group, `j` its replica, `C` a clique, `k` a pod's index.
"""

import hashlib

#: The letters Kubernetes uses for random suffixes: no vowels, no look-alikes.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
_BASE = len(_ALPHABET)
#: What each letter of a suffix counts; a digest of 64 bits has no more than thirteen.
_POWERS = tuple(_BASE**place for place in range(14))

#: What `len(P) + len(C)` (and `len(G)`) may add up to, so that every derived name fits 63 characters.
NAME_BUDGET = 45
LABEL_LIMIT = 63


def clique(cliqueset: str, replica: int, template: str) -> str:
    """`P-i-C`, a clique that stands alone."""
    return f"{cliqueset}-{replica}-{template}"


def scaling_group(cliqueset: str, replica: int, group: str) -> str:
    """`P-i-G`."""
    return f"{cliqueset}-{replica}-{group}"


def autoscaler(cliqueset: str, replica: int, target: str) -> str:
    """`P-i-C` or `P-i-G`: an autoscaler has the name of what it scales."""
    return f"{cliqueset}-{replica}-{target}"


def group_clique(scaling_group: str, replica: int, template: str) -> str:
    """`P-i-G-j-C`, a clique inside a scaling group."""
    return f"{scaling_group}-{replica}-{template}"


def group_replica(scaling_group: str, replica: int) -> str:
    """`P-i-G-j`, one replica of a scaling group; also the podgroups of it that a base gang packs together."""
    return f"{scaling_group}-{replica}"


def scaled_gang(scaling_group: str, number: int) -> str:
    """`P-i-G-n`, the gang of a group replica above the group's minimum, counted from there."""
    return f"{scaling_group}-{number}"


def base_gang(cliqueset: str, replica: int) -> str:
    """`P-i`, the gang that every replica of a set has."""
    return f"{cliqueset}-{replica}"


def service(cliqueset: str, replica: int) -> str:
    """`P-i`, the headless service of one replica; also the pods' subdomain."""
    return f"{cliqueset}-{replica}"


def template_revision(cliqueset: str, hash: str) -> str:
    """`P-<hash>`, the record of the pod templates that a set had."""
    return f"{cliqueset}-{hash}"


def pod_role(cliqueset: str) -> str:
    """`grove.io:pcs:P`, the role of pods that wait for others, and its binding."""
    return f"grove.io:pcs:{cliqueset}"


def service_domain(cliqueset: str, replica: int, namespace: str) -> str:
    """The name under which the pods of one replica find each other."""
    return f"{service(cliqueset, replica)}.{namespace}.svc.cluster.local"


def shared_claim(owner: str, template: str) -> str:
    """`<owner>-all-T`, the claim that everything of a set, a scaling group or a clique shares."""
    return f"{owner}-all-{template}"


def replica_claim(owner: str, index: int, template: str) -> str:
    """`<owner>-n-T`, the claim of one replica of a set or scaling group, or of one pod of a clique."""
    return f"{owner}-{index}-{template}"


def compute_domain(cliqueset: str, replica: int, group: str) -> str:
    """`P-i-<group>`, the NVLink domain of a group of roles in one replica, and the template of its claims."""
    return f"{cliqueset}-{replica}-{group}"


def claim_reference(claim: str) -> str:
    """What a pod calls a claim: its own name, where that can be a DNS label."""
    flat = claim.replace(".", "-")
    if flat == claim and len(claim) <= LABEL_LIMIT:
        return claim
    return f"{flat[: LABEL_LIMIT - 11].rstrip('-')}-{_digest(claim)}"


def hostname(clique: str, index: int | str) -> str:
    """`P-i-C-k`: a pod's stable identity, kept by its replacement."""
    return f"{clique}-{index}"


def hostname_index(clique: str, hostname: str) -> int | None:
    """The index in a hostname of this clique, or None when it is not one."""
    prefix, _, index = hostname.rpartition("-")
    if prefix != clique or not _is_number(index) or (len(index) > 1 and index[0] == "0"):
        return None
    return int(index)


def pod(clique: str, identity: str, index: int, *, attempt: int = 0) -> str:
    """A pod's name: five characters derived from what it is, so that a retried create meets itself.

    `identity` tells the clique and the start of its gang from all others; `attempt` counts the names before
    it that a predecessor at the same index holds or held.
    """
    return f"{clique}-{suffix(identity, str(index), str(attempt))}"


def suffix(*parts: str, length: int = _SUFFIX_LENGTH) -> str:
    """Some characters, at most thirteen, that depend on all parts and on nothing else."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])
    return "".join([_ALPHABET[number // power % _BASE] for power in _POWERS[:length]])


def set_replica(cliqueset: str, name: str) -> int | None:
    """The replica index in a name that starts with `P-i`, or None when it does not."""
    if not name.startswith(f"{cliqueset}-"):
        return None
    index, _, _ = name[len(cliqueset) + 1 :].partition("-")
    return int(index) if _is_number(index) else None


def indexed(name: str) -> tuple[int, str] | None:
    """The number that a name begins with and what follows behind `-`; None when it begins with no number.

    A number with a leading zero is in no name of ours.
    """
    number, _, rest = name.partition("-")
    if not _is_number(number) or (len(number) > 1 and number[0] == "0"):
        return None
    return int(number), rest


def _is_number(text: str) -> bool:
    """Whether the text is an index; digits of other scripts are digits to Python, but not to us."""
    return text.isascii() and text.isdigit()


def shortened(name: str, limit: int = LABEL_LIMIT) -> str:
    """The name itself if it fits, else its head and a digest that keeps it unique."""
    if len(name) <= limit:
        return name
    return f"{name[: limit - 11].rstrip('-.')}-{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:10]
