"""Keep the certificate of the webhooks right with an authority of our own, in a Secret of all replicas.

Every replica does this, leading or not, and they need not agree: the Secret is written under its
resourceVersion, and whoever comes second reads what the first one wrote. What the Secret should hold is
decided in `plan`. A caBundle is never set back by somebody who is behind: the configurations are read before
the Secret, so that the Secret is at least as new as whatever they hold, and are patched only if they are
still as they were read.

Touches that Secret and the caBundles of Grove's own webhooks, nothing else.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from grove.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from grove.meta import Key, Manifest, Object
from grove.runtime.backoff import Backoff
from grove.runtime.clock import Clock
from grove.runtime.informer import Informer
from grove.runtime.ports import Reader
from grove.webhook.certificates.bundles import (
    INJECTED,
    authorities_everywhere,
    corrections,
    injected_by_others,
)
from grove.webhook.certificates.configurations import CONFIGURATIONS, Registration, registrations
from grove.webhook.certificates.inspection import authorities_in, fingerprint, pem
from grove.webhook.certificates.material import SECRETS, Material, desired_secret, material_of
from grove.webhook.certificates.periods import Periods
from grove.webhook.certificates.plan import Plan, Situation, plan_material, plan_without_writing
from grove.webhook.certificates.ports import CertificateClient
from grove.webhook.certificates.telling import Publisher, Tell
from grove.webhook.certificates.trust import Trust
from grove.webhook.serving import ServingCertificate

log = logging.getLogger(__name__)

#: How often everything is looked at, also if no watch told of a change.
LOOK_SECONDS: Final = 60.0
#: Waits after a look that failed, or that lost against another replica.
RETRY_SECONDS: Final = (0.1, 15.0)
#: Replicas meet when both renew; who loses so often does not lose against a replica.
LOST_IN_A_ROW: Final = 5

_Configurations = list[tuple[Registration, Manifest]]


class _Overtaken(Exception):
    """Somebody else wrote in between: what was read is old, and is read again."""


class OwnAuthority:
    """The certificate source of certProvisionMode auto."""

    def __init__(
        self,
        client: CertificateClient,
        secret: Key,
        names: Sequence[str],
        *,
        clock: Clock,
        rng: random.Random,
        watcher: Reader | None = None,
        periods: Periods | None = None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        """With a `watcher` changes of others are noticed at once, and otherwise at the next look."""
        self._client = client
        self._secret = secret
        self._names = tuple(names)
        self._clock = clock
        self._rng = rng
        self._periods = periods or Periods()
        self._look_seconds = look_seconds
        self._publisher = Publisher(clock)
        self._trust = Trust(clock.monotonic, self._periods.trusted)
        self._backoff = Backoff(rng, first=RETRY_SECONDS[0], cap=RETRY_SECONDS[1])
        self._changed = asyncio.Event()
        self._served: Material | None = None
        #: Why API servers cannot verify what is served, as far as we last saw.
        self._unverified: str | None = "the caBundles of the webhooks have not been looked at yet"
        self._read_at = clock.monotonic()
        self._informers = [] if watcher is None else self._watched(watcher)

    def subscribe(self, changed: Callable[[ServingCertificate], None]) -> None:
        """Call this with every new certificate, and at once with the present one, if there is one."""
        self._publisher.subscribe(changed)

    def report_to(self, tell: Tell) -> None:
        """Say what is wrong in this way too, not by the log alone."""
        self._publisher.tell(tell)

    def lacking(self) -> str | None:
        """The readiness check: what keeps API servers from verifying this server, as a sentence."""
        problem = self._publisher.problem
        if self._publisher.certificate is None:
            return problem or f"the certificate in Secret {self._secret} has not been read yet"
        silent = self._clock.monotonic() - self._read_at
        if silent >= self._periods.retired.total_seconds() * 0.9:
            # The others may have dropped the authority by which we are verified.
            return f"Secret {self._secret} could not be read for {silent / 3600:.0f} hours"
        return self._publisher.expired() or self._unverified

    async def run(self) -> None:
        """Keep everything right until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_on(), name="webhook certificate")
            for informer in self._informers:
                group.create_task(informer.run(), name=f"watch of {informer.resource}")

    async def _look_on(self) -> None:
        """Look, and again whenever something changed or some time has passed."""
        while True:
            self._changed.clear()
            wait = await self._look_safely()
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def _look_safely(self) -> float:
        """One look; answers how long to wait for the next one, whatever happens."""
        try:
            self._publisher.report(await self.look())
        except _Overtaken as lost:
            if self._backoff.failures >= LOST_IN_A_ROW:
                self._publisher.report(str(lost))
            return self._backoff.next()
        except ApiError as error:
            self._publisher.report(f"Secret {self._secret} cannot be read or written: {error}")
            return self._backoff.next()
        except Exception:
            log.exception("looking after the certificate of the webhooks failed")
            self._publisher.report("unexpected error, see the log")
            return self._backoff.next()
        self._backoff.reset()
        return self._look_seconds * self._rng.uniform(0.9, 1.1)

    async def look(self) -> str | None:
        """Bring Secret, caBundles and what is served into order once; answers what is still wrong."""
        configurations, unread = await self._configurations()
        found = await self._found()
        self._read_at = self._clock.monotonic()
        seen = self._situation(found, configurations, known=unread is None)
        plan, unwritten = await self._stored(seen, found)
        try:
            refused = await self._inject(configurations, plan.material.ca)
            if unread is None or self._unverified is not None:
                self._unverified = unread or refused
        finally:
            self._publish(plan)
        return unwritten or unread or refused

    def _watched(self, client: Reader) -> list[Informer[Object]]:
        """The watches on what others may change; only metadata is kept of it."""
        wanted = [(each, "", "") for each in CONFIGURATIONS.values()]
        wanted.append((SECRETS, self._secret.namespace, f"metadata.name={self._secret.name}"))
        ours = {self._secret.name, *(each.name for each in registrations())}
        informers = []
        for resource, namespace, fields in wanted:
            informer = Informer(
                client,
                resource,
                Object,
                namespace=namespace,
                fields=fields,
                clock=self._clock,
                rng=random.Random(self._rng.getrandbits(64)),
            )
            informer.subscribe(partial(self._saw, ours))
            informers.append(informer)
        return informers

    def _saw(self, ours: set[str], old: Object | None, new: Object | None) -> None:
        item = new or old
        if item is not None and item.name in ours:
            self._changed.set()

    def _situation(
        self, found: Manifest | None, configurations: _Configurations, *, known: bool
    ) -> Situation:
        now = self._clock.now()
        stored = material_of(found) if found is not None else None
        present = authorities_everywhere(configurations, now) if known else None
        self._trust.saw(present or ())
        trusted = self._trust.lasting()
        if known and not configurations and stored is not None:
            # Nobody verifies anything yet: there is nobody to wait for.
            trusted = frozenset(fingerprint(each) for each in authorities_in(stored.ca, now))
        return Situation(now, self._names, stored, self._served, present, trusted, self._periods)

    async def _found(self) -> Manifest | None:
        try:
            found: Manifest = await self._client.get(SECRETS, self._secret, type=dict)
        except NotFound:
            return None
        return found

    async def _stored(self, seen: Situation, found: Manifest | None) -> tuple[Plan, str | None]:
        """What is to be served, written if it is new; or what was there, and why nothing can be written."""
        plan = plan_material(seen)
        if not plan.why:
            return plan, None
        try:
            await self._store(plan, found)
        except ApiError as error:
            # What is there may be good for months: no reason to serve nothing, or to let it go.
            meanwhile = plan_without_writing(seen)
            if meanwhile is None or (seen.served and seen.served.chain != meanwhile.material.chain):
                raise
            return meanwhile, f"Secret {self._secret} cannot be written: {error}"
        return plan, None

    async def _store(self, plan: Plan, found: Manifest | None) -> None:
        manifest = desired_secret(self._secret, plan.material, found)
        try:
            if found is None:
                await self._client.create(SECRETS, manifest)
            else:
                await self._client.replace(SECRETS, manifest)
        except (Conflict, AlreadyExists):
            raise _Overtaken(f"Secret {self._secret} is written by somebody else again and again") from None
        except NotFound:
            if found is None:
                # Not the Secret: its namespace.
                raise
            raise _Overtaken(f"Secret {self._secret} is deleted again and again") from None
        log.info(
            "certificates of the webhooks were written", extra={"secret": str(self._secret), "why": plan.why}
        )

    async def _configurations(self) -> tuple[_Configurations, str | None]:
        """Our webhook configurations as they are, and why they cannot be read."""
        found: _Configurations = []
        for registration in registrations():
            key = Key("", registration.name)
            try:
                each: Manifest = await self._client.get(registration.resource, key, type=dict)
            except NotFound:
                continue
            except ApiError as error:
                return [], f"{registration} cannot be read, so its caBundle may be wrong: {error}"
            found.append((registration, each))
        return found, None

    async def _inject(self, configurations: _Configurations, bundle: bytes) -> str | None:
        """Put the caBundles right; answers what keeps one from being right."""
        for registration, configuration in configurations:
            operations = corrections(registration, configuration, bundle)
            if not operations:
                continue
            if injected_by_others(configuration):
                return (
                    f"{registration} has annotation {INJECTED}, so that its caBundle is cert-manager's, "
                    "but the certificate is the operator's own: set server.webhooks.certProvisionMode to "
                    "manual, or remove the annotation"
                )
            try:
                await self._client.json_patch(registration.resource, Key("", registration.name), operations)
            except (Conflict, Invalid, NotFound) as error:
                # Changed or gone since it was read; whether it is right, the next look will show.
                raise _Overtaken(f"the caBundle of {registration} cannot be written: {error}") from None
            except ApiError as error:
                return f"the caBundle of {registration} cannot be written: {error}"
            else:
                log.info("caBundle was put right", extra={"configuration": str(registration)})
        return None

    def _publish(self, plan: Plan) -> None:
        server = plan.server
        self._served = Material(server.chain, server.key, pem([plan.issuer]))
        certificate = ServingCertificate(server.chain, server.key, plan.material.ca, server.not_after)
        self._publisher.publish(certificate)
