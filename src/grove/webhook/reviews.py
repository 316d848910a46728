"""Which path answers what: the webhooks of one operator, by path."""

from collections.abc import Awaitable, Callable

from grove.kube.client import Client
from grove.webhook.authorizer import Authorizer
from grove.webhook.children import ChildReviews
from grove.webhook.cliquesets import CliqueSetReviews, default_cliqueset
from grove.webhook.dry_runs import DryRuns
from grove.webhook.registrations import (
    AUTHORIZE,
    DEFAULT_CLIQUESET,
    VALIDATE_CLIQUE,
    VALIDATE_CLIQUESET,
    VALIDATE_GANG,
    VALIDATE_SCALING_GROUP,
    VALIDATE_TOPOLOGY,
)
from grove.webhook.review import Answer, Request
from grove.webhook.surroundings import Surroundings
from grove.webhook.topologies import TopologyReviews


def reviews_by_path(
    known: Surroundings, client: Client, operator: str
) -> dict[str, Callable[[Request], Awaitable[Answer]]]:
    """Every webhook; the authorizer only where the configuration enables it.

    `operator` is the user under which the operator writes.
    """
    cliquesets = CliqueSetReviews(known, DryRuns(client))
    children = ChildReviews(known)
    found: dict[str, Callable[[Request], Awaitable[Answer]]] = {
        DEFAULT_CLIQUESET: _defaulted,
        VALIDATE_CLIQUESET: cliquesets.validate,
        VALIDATE_TOPOLOGY: TopologyReviews(known).validate,
        VALIDATE_CLIQUE: children.clique,
        VALIDATE_SCALING_GROUP: children.scaling_group,
        VALIDATE_GANG: children.gang,
    }
    protection = known.configuration.authorizer
    if protection.enabled:
        exempt = protection.exempt_service_account_user_names
        found[AUTHORIZE] = Authorizer(known, operator=operator, exempt=exempt).authorize
    return found


async def _defaulted(request: Request) -> Answer:
    return default_cliqueset(request)
