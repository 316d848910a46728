"""Words that depend on a number: `counted(1, "pod")` and `counted(2, "pod is", "pods are")`.

Imports nothing of ours, so that every sentence can use it.
"""


def counted(number: int, one: str, many: str = "") -> str:
    """`1 pod`, `2 pods`; with `many` for whatever else changes with the number: `2 pods are`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"
