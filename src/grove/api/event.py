"""The part of an event about a pod that Grove reads."""

from grove.meta import Object, View, resource

EVENTS = resource("", "v1", "Event")


class InvolvedObject(View):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Series(View):
    """That the same was reported again; which text it had then is not kept by the API server."""

    count: int = 0


class PodEvent(Object):
    """A core/v1 Event as far as it concerns a pod."""

    involved_object: InvolvedObject = InvolvedObject()
    message: str = ""
    event_time: str | None = None
    series: Series | None = None
