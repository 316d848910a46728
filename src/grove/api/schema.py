"""How a view says what its type cannot: descriptions, bounds, defaults and list kinds of the served schema.

Nothing here is checked when a view is decoded: the API server enforces the schema, and an object that an
older schema let in must still be readable. `grove.api.crd` turns the annotations into
CustomResourceDefinitions.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from grove.meta import Manifest

Int32 = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int32"})]
Int64 = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int64"})]
Time = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]

#: Lists that a rule walks are bounded, so that the API server can bound the rule's cost.
MAX_CLIQUES: Final = 64
MAX_GROUPS: Final = 32
MAX_SHARED: Final = 32
#: Beyond what any cluster can run; a number above it is a mistake, and is refused before it is stored.
MAX_REPLICAS: Final = 100_000
DNS_LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DOMAIN: Final = "^[a-z][a-z0-9-]*$"

#: A JSON object that is stored as it was written, whatever it contains.
VERBATIM: Final[Manifest] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

#: A number or a percentage.
INT_OR_STRING: Final[Manifest] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}

#: Keywords of ours that the generator consumes; they never reach the schema.
REQUIRED: Final = "x-required"
OMIT: Final = "x-omit"
SCHEMA: Final = "x-schema"
NARROW: Final = "x-narrow"

_SPELLINGS: Final[Mapping[str, str]] = {
    "list_type": "x-kubernetes-list-type",
    "map_keys": "x-kubernetes-list-map-keys",
    "max_length": "maxLength",
    "min_length": "minLength",
    "max_items": "maxItems",
    "min_items": "minItems",
    "required": REQUIRED,
    "omit": OMIT,
    "schema": SCHEMA,
    "narrow": NARROW,
}


def says(description: str = "", **keywords: object) -> msgspec.Meta:
    """The schema of a field beyond its type.

    Keywords are those of OpenAPI in snake case, and four of ours: `required=True`; `omit=("a.b",)`, fields
    of the type that do not exist here; `narrow={"a": {...}}`, what holds for its fields here only;
    `schema={...}`, the whole schema of the value.
    """
    extra = {_SPELLINGS.get(keyword, keyword): value for keyword, value in keywords.items()}
    return msgspec.Meta(description=description or None, extra_json_schema=extra)


#: A pod spec is not ours to describe: what is listed is what Grove relies on, everything else is kept too.
POD_SPEC: Final[Manifest] = {
    **VERBATIM,
    "required": ["containers"],
    "properties": {
        "containers": {
            "type": "array",
            "minItems": 1,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {**VERBATIM, "required": ["name"], "properties": {"name": {"type": "string"}}},
        },
        "schedulerName": {"type": "string", "maxLength": 253},
    },
}

#: As metav1.Condition, but `lastTransitionTime` may be absent: a gang is born with a condition by default.
CONDITION: Final[Manifest] = {
    "type": "object",
    "required": ["type", "status", "reason", "message"],
    "properties": {
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    },
}
