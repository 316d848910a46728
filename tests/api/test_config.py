"""The operator's configuration file: defaults, and errors that name the field."""

import json

import pytest

from grove.api.config import OperatorConfiguration, load, unknown_keys
from grove.errors import InvalidConfiguration

HEADER = "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"

CHART = (
    HEADER
    + """
runtimeClientConnection: {qps: 100, burst: 150}
leaderElection: {enabled: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s, resourceLock: leases,
  resourceName: grove-operator-leader-election}
server:
  webhooks: {port: 9443, serverCertDir: /etc/grove-operator/webhook-certs, certProvisionMode: auto}
  healthProbes: {port: 9444}
  metrics: {port: 9445}
controllers: {podCliqueSet: {concurrentSyncs: 3}, podClique: {concurrentSyncs: 3}}
debugging: {enableProfiling: false, pprofBindHost: 127.0.0.1, pprofBindPort: 2753}
logLevel: debug
logFormat: text
authorizer: {enabled: false, reconcilerServiceAccountUserName: someone}
topologyAwareScheduling: {enabled: true}
network: {autoMNNVLEnabled: true}
scheduler:
  defaultProfileName: kai-scheduler
  profiles:
  - name: kai-scheduler
    config: {queue: research, nested: {anything: [1, null]}}
"""
)


def test_no_configuration_means_the_defaults() -> None:
    configuration = load("")
    assert [profile.name for profile in configuration.scheduler.profiles] == ["default-scheduler"]
    assert configuration.scheduler.default_profile_name == "default-scheduler"
    assert configuration.leader_election == OperatorConfiguration().leader_election
    assert not configuration.leader_election.enabled
    assert (configuration.runtime_client_connection.qps, configuration.runtime_client_connection.burst) == (
        5000,
        10000,
    )


def test_a_configuration_of_the_incumbents_chart_is_read_whole() -> None:
    configuration = load(CHART)
    assert configuration.runtime_client_connection.burst == 150
    assert configuration.leader_election.lease_seconds == 15
    assert configuration.server.health_probes.port == 9444
    assert configuration.controllers.pod_clique.concurrent_syncs == 3
    assert configuration.controllers.pod_gang.concurrent_syncs == 64
    assert (configuration.log_level, configuration.log_format) == ("debug", "text")
    assert configuration.network.auto_mnnvl_enabled
    assert configuration.topology_aware_scheduling.enabled
    assert [profile.name for profile in configuration.scheduler.profiles] == [
        "kai-scheduler",
        "default-scheduler",
    ]
    assert configuration.scheduler.default_profile_name == "kai-scheduler"


def test_the_configuration_of_a_profile_is_kept_verbatim() -> None:
    (kai, _) = load(CHART).scheduler.profiles
    assert kai.config == {"queue": "research", "nested": {"anything": [1, None]}}


def test_keys_that_nobody_reads_are_warned_about_and_not_fatal() -> None:
    assert list(map(str, unknown_keys(CHART))) == [
        "authorizer.reconcilerServiceAccountUserName: unknown field"
    ]


def test_json_is_read_as_well_as_yaml() -> None:
    text = json.dumps(
        {
            "apiVersion": "operator.config.grove.io/v1alpha1",
            "kind": "OperatorConfiguration",
            "logLevel": "error",
        }
    )
    assert load(text).log_level == "error"


def test_a_profile_may_bear_the_name_of_its_backend() -> None:
    configuration = load(
        HEADER + "scheduler: {profiles: [{name: default}, {name: kai}], defaultProfileName: kai}"
    )
    assert [profile.name for profile in configuration.scheduler.profiles] == ["default", "kai"]


def test_a_section_left_empty_means_its_defaults() -> None:
    assert load(HEADER + "debugging:\nserver:\n").server.metrics.port == 2752


WRONG = {
    "logLevel": ("logLevel: loud", "logLevel: must be one of debug, info, error; got 'loud'"),
    "logFormat": ("logFormat: xml", "logFormat: must be one of json, text"),
    "ownership": (
        "fieldOwnership: Nobody",
        "fieldOwnership: must be one of Tracked, Untracked; got 'Nobody'",
    ),
    "type": (
        "controllers: {podGang: {concurrentSyncs: many}}",
        "controllers.podGang.concurrentSyncs: must be a whole number, not the text 'many'",
    ),
    "workers": (
        "controllers: {podGang: {concurrentSyncs: 0}}",
        "controllers.podGang.concurrentSyncs: must be greater than 0",
    ),
    "burst": ("runtimeClientConnection: {burst: -1}", "runtimeClientConnection.burst: must not be negative"),
    "lease": (
        "leaderElection: {enabled: true, leaseDuration: 5s, renewDeadline: 10s}",
        "leaderElection.leaseDuration: must be greater than renewDeadline (10s); got 5s",
    ),
    "duration": (
        "leaderElection: {enabled: true, retryPeriod: soon}",
        "leaderElection.retryPeriod: 'soon' is not a duration",
    ),
    "port": ("server: {metrics: {port: 70000}}", "server.metrics.port: must be a port"),
    "certificates": (
        "server: {webhooks: {certProvisionMode: magic}}",
        "server.webhooks.certProvisionMode: must be one of",
    ),
    "profile": ("scheduler: {profiles: [{name: ''}]}", "scheduler.profiles[0].name: is required"),
    "unknown profile": (
        "scheduler: {profiles: [{name: nomad}]}",
        "scheduler.profiles[0].name: must be one of default, default-scheduler, kai",
    ),
}


@pytest.mark.parametrize(("text", "want"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named_with_what_is_wrong(text: str, want: str) -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        load(HEADER + text, known_profiles=["default", "kai", "default-scheduler", "kai-scheduler"])
    assert want in str(refusal.value)


def test_all_wrong_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        load(HEADER + "logLevel: loud\nlogFormat: xml\n")
    assert "logLevel" in str(refusal.value)
    assert "logFormat" in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "kind: OperatorConfiguration",
        "apiVersion: v1\nkind: Pod",
        "just text",
        "[1]",
        "a: [",
        "logLevel: info",
    ],
)
def test_a_document_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match="operator's configuration"):
        load(text)


def test_what_is_no_yaml_is_told_in_one_line_with_its_place() -> None:
    with pytest.raises(InvalidConfiguration) as refusal:
        load("a: b\nc: d: e\n")
    assert str(refusal.value) == (
        "the operator's configuration:2:5: is not valid YAML: mapping values are not allowed here"
    )
