"""The bug museum: defects of Grove in Go and of schedulers that must not come back here, each by its public source.

A test belongs to a row by its docstring, which is the row's source and sentence; `test_museum.py` holds both
together.
"""

from collections.abc import Mapping
from typing import Final

#: What must hold, by the public issues or pull requests in which it did not.
ROWS: Final[Mapping[str, str]] = {
    "grove#723": "opening our gate leaves the gates of others on the pod",
    "grove#810, grove#660": "names at the limit of 63 characters run, and longer ones are refused with the budget",
    "grove#835": "a role that leaves out its replicas has a minimum of one",
    "grove#830": "init containers keep their order, and ours comes last",
    "grove#847": "gates open within a second of the last pod, not with the next resync",
    "grove#744, grove#748": "whatever can be scaled has a selector, and follows what a scaler writes",
    "grove#453": "rendering the chart again leaves the certificate of the webhooks in its Secret",
    "grove#530": "pods that Grove does not manage are not cached",
    "grove#565, grove#661, grove#662": "edits that change no meaning restart nothing, edits of replicas neither",
    "grove#400, grove PR#671": "a second update during the first one ends with the second template everywhere",
    "grove#709, grove#808": "another version of the operator deletes no pod of a set that nobody edited",
    "grove#837": "a set that changes its scheduler leaves no object and no mark of the first one",
    "grove#676, grove#677, grove#809": "cliques, groups and sets are scaled to zero and back",
    "grove#277, grove#614": "a breach counts placed and working pods, says when it ends the gang, and does",
    "grove#648": "the topology of a set holds for all of its gangs, or the set is refused",
    "grove#209, grove#215": "pods of a ComputeDomain that become ready only together are all released",
    "grove#218": "the token of the waiting container needs no other controller before it can be read",
    "grove#286, grove#226": "an error that stays is one event and one condition, however often it is met",
    "grove PR#759": "scaling in does not count pods that are going already, and takes none of them twice",
    "grove PR#760": "optional fields are compared by what they mean, not by whether they are written",
    "grove#782": "a set that is deleted and made again under its name starts from nothing",
    "grove PR#802": "gangs of replicas that were scaled by hand survive a restart of the operator",
    "KAI#1639": "no subGroup has a minimum of zero",
    "KAI PR#2117, dynamo PR#14553": "a PodGroup of KAI has one writer, and KAI does not end gangs on its own",
    "volcano#6010": "a higher minimum is in the PodGroup before the gates of new pods open",
    "aibrix#2631": "every pod of Volcano says by what its PodGroup counts it, be it a task or a label",
    "kuberay#3895": "YuniKorn's style is Hard, and placeholders are as large as pods with sidecars and overhead",
    "kuberay#5205": "the scheduler's objects follow when something is scaled",
    "koordinator, read in its code": "the match policy of a gang is written out",
    "kubernetes, read in its code": "the scheduler's group is there before gates open, and nine roles are no obstacle",
}

#: Rows with a test that is skipped where a program is missing, and that program. Another test of the row runs anywhere.
NEEDS: Final[Mapping[str, str]] = {"grove#453": "Helm, by `make helm`"}
