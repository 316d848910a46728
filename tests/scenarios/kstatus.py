"""How tools read the state of an object that they do not know: kstatus, and `kubectl wait`."""

from typing import Final

from grove.meta import Manifest

CURRENT: Final = "Current"
IN_PROGRESS: Final = "InProgress"
FAILED: Final = "Failed"
TERMINATING: Final = "Terminating"


def kstatus(obj: Manifest) -> str:
    """What kstatus makes of a custom resource: deletion, generation, its two conditions, then `Ready`."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    if metadata.get("deletionTimestamp"):
        return TERMINATING
    if "observedGeneration" in status and status["observedGeneration"] != metadata["generation"]:
        return IN_PROGRESS
    listed = status.get("conditions") or ()
    for each in listed:
        if each["type"] == "Reconciling" and each["status"] == "True":
            return IN_PROGRESS
        if each["type"] == "Stalled" and each["status"] == "True":
            return FAILED
    ready = next((each["status"] for each in listed if each["type"] == "Ready"), "True")
    return CURRENT if ready == "True" else IN_PROGRESS


def waited_for(obj: Manifest, condition: str = "Ready") -> bool:
    """Whether `kubectl wait --for=condition=...` returns: a condition of an earlier generation does not count."""
    for each in (obj.get("status") or {}).get("conditions") or ():
        if each["type"] == condition:
            current = each.get("observedGeneration", 0) >= obj["metadata"]["generation"]
            return bool(current and each["status"] == "True")
    return False
