"""The children of a set: rows of what should exist, compared with what does. Pure.

`rows` says what a row is, `registry` lists the kinds, one module for each; `engine` compares and knows none.
"""

from grove.plan.children.engine import Plan, Settled
from grove.plan.children.pending import edit_pending, waiting_edits
from grove.plan.children.registry import KINDS, plan_children
from grove.plan.children.state import CliqueSetState, sort_children

__all__ = [
    "KINDS",
    "CliqueSetState",
    "Plan",
    "Settled",
    "edit_pending",
    "plan_children",
    "sort_children",
    "waiting_edits",
]
