"""By row of the table of conditions and reasons, the tests that do what the row advises, or why there is none.

A test is named only if somebody in it does what is written, and what was wrong is right afterwards. Where a row has
several ways out, `lacks` says which of them no test takes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Advice:
    """What is known of the advice of one row."""

    #: By file under `tests`, and function.
    tests: tuple[str, ...] = ()
    #: What of the advice no test does, and why.
    lacks: str = ""


def done_by(*tests: str, lacks: str = "") -> Advice:
    return Advice(tests, lacks)


def untested(why: str) -> Advice:
    return Advice(lacks=why)


#: The row says that nothing is to be done.
NOTHING: Final = untested("nothing is to be done")
#: The row sends the reader elsewhere: to another row, or to a gang, its pods and its cliques.
ELSEWHERE: Final = untested("the row only says where to look")

ON_EVERY_KIND: Final[Mapping[str, Advice]] = {
    "`Progressing=True` `InProgress`": ELSEWHERE,
    "`Progressing=False` `Complete`": NOTHING,
    "`Progressing=False` `Stalled`": ELSEWHERE,
    "`Stalled=True`": done_by(
        "scenarios/test_standing.py::test_a_refused_set_has_failed_with_a_code_until_it_is_mended"
    ),
}

OF_REFUSED_SETS: Final[Mapping[str, Advice]] = {
    "`Accepted=False` `LimitExceeded`": done_by(
        "scenarios/test_limits.py::test_a_set_that_grows_beyond_the_limit_keeps_what_runs",
        lacks="no test splits a set, and none raises the limit",
    ),
    "`Accepted` `Valid`": NOTHING,
    "`Accepted=False` `Invalid`": done_by("scenarios/test_templates.py::test_a_corrected_template_runs"),
    "`Accepted=False` `Invalid`: *roles were added or removed ...*": done_by(
        "scenarios/test_pods.py::test_other_roles_are_refused_or_carried_out_as_a_whole",
        lacks="the edit is taken back there; no test deletes such a set and creates it again",
    ),
    "`Accepted=False` `Invalid`: *autoScalingConfig.minReplicas: must be greater than or equal to minAvailable "
    "...*": done_by(
        "scenarios/test_autoscaling.py::"
        "test_a_set_whose_autoscaler_could_not_be_created_is_refused_before_anything_of_it_exists",
        lacks="a metric is corrected there, and no bound",
    ),
    "`Accepted=False` `Invalid`: *... is below minAvailable ...*": done_by(
        "scenarios/test_changes.py::"
        "test_replicas_below_a_minimum_that_was_left_out_are_refused_until_the_minimum_is_set_too"
    ),
    "`Accepted=False` `Invalid`: *annotations[grove.io/mnnvl-group]: cannot be changed ...*": done_by(
        "scenarios/test_nvlink.py::test_supported_and_enabled_the_annotation_of_a_set_cannot_be_changed",
        lacks="the annotation is put back there; no test deletes such a set and creates it again",
    ),
    "`Accepted=False` `Unsupported`: *MNNVL is not enabled ...*, *the cluster does not serve computedomains "
    "...*": done_by(
        "scenarios/test_nvlink.py::"
        "test_unsupported_but_enabled_the_set_is_refused_the_operator_works_on_and_the_definition_heals_it",
        lacks="no test switches the setting on for a set that waits",
    ),
    "`Accepted=False` `Unsupported`: *the cluster does not serve resourceclaims ...*": untested(
        "no world changes its Kubernetes version"
    ),
    "`Accepted=False` `Unsupported`: *... roles of a gang would share a claim ...*": untested(
        "no world changes the configuration of a backend while it runs"
    ),
    "`Accepted=False` `Unsupported`: *... pods of a gang would share a claim ...*": untested(
        "no world changes its Kubernetes version, and what a set shares is judged by the backend alone"
    ),
    "`Accepted=False` `Unsupported`": done_by(
        "scenarios/test_table_of_edits.py::test_an_edit_does_what_the_table_says",
        lacks="the field is removed there; no refused set is given to another scheduler",
    ),
    "`Accepted=False` `BackendNotEnabled`": done_by(
        "scenarios/test_selection.py::test_a_refused_set_that_is_corrected_runs",
        "scenarios/test_reloading.py::test_a_backend_that_is_enabled_takes_the_sets_that_waited_for_it",
    ),
    "`Accepted=False` `TopologyLevelsUnavailable`": ELSEWHERE,
}

OF_SETS: Final[Mapping[str, Advice]] = {
    "`Available=False` `ReplicasUnavailable`": ELSEWHERE,
    "`Available` `AllReplicasAvailable`": NOTHING,
    "`Ready=False` `GangsNotReady`": ELSEWHERE,
    "`Ready=False` `BeingDeleted`": ELSEWHERE,
    "`Ready=False` `PodsSucceeded` (PodCliqueSet)": NOTHING,
    "`Ready=False` `UpdateInProgress`": ELSEWHERE,
    "`Ready` `AllGangsReady`": NOTHING,
    "`UpdateInProgress=True` `RollingRecreate`": done_by(
        "scenarios/test_update_attacks.py::"
        "test_a_template_whose_pods_never_become_ready_stops_at_one_pod_and_is_undone_there",
        "cli/test_rollout.py::test_an_update_is_watched_to_its_end_and_undone",
    ),
    "`UpdateInProgress=True` `Paused`": done_by(
        "cli/test_rollout.py::test_a_paused_update_takes_nothing_down_until_it_is_resumed",
        "scenarios/test_rolling_update.py::"
        "test_an_update_that_was_paused_before_it_began_begins_when_the_pause_ends",
    ),
    "`EditPending=True` `PodsStillPlaced`": done_by(
        "scenarios/test_table_of_edits.py::test_an_edit_does_what_the_table_says"
    ),
    "`GangTerminationPending=True` `MinAvailableBreached`": done_by(
        "scenarios/test_gang_termination.py::test_the_set_says_when_what_is_recycled_and_what_would_prevent_it",
        lacks="no test raises the delay while it runs",
    ),
    "`Degraded=True` `NameTaken`": done_by(
        "scenarios/test_degraded.py::test_a_service_of_somebody_else_is_told_by_the_set_until_it_is_gone"
    ),
    "`Degraded=True` `ResourceClaimTemplateNotFound`": done_by(
        "scenarios/test_claims.py::test_pods_wait_for_a_template_that_does_not_exist_and_start_when_it_appears"
    ),
    "`Degraded=True` `SyncFailed`": done_by(
        "scenarios/test_failures.py::"
        "test_a_quota_that_stops_pods_is_told_everywhere_and_lifting_it_lets_the_gang_run",
        lacks="a webhook, and permissions",
    ),
    "`TopologyLevelsUnavailable=True` `ClusterTopologyLevelsUnavailable`": done_by(
        "scenarios/test_edges.py::test_a_level_that_the_binding_lacks_is_named",
        lacks="the level is added there; no test asks for another one",
    ),
    "`TopologyLevelsUnavailable=Unknown` `ClusterTopologyNotFound`": done_by(
        "scenarios/test_topology.py::test_a_set_whose_binding_is_gone_still_shrinks_and_grows_again_when_it_is_back"
    ),
    "`TopologyLevelsUnavailable=Unknown` `ClusterTopologyInvalid`": done_by(
        "scenarios/test_topology.py::test_a_binding_that_contradicts_itself_is_not_acted_on"
    ),
    "`TopologyLevelsUnavailable=Unknown` `TopologyNameMissing`": untested(
        "no scenario has such a set, which is refused for the missing name itself"
    ),
    "`TopologyLevelsUnavailable=Unknown` `TopologyAwareSchedulingDisabled`": done_by(
        "scenarios/test_edges.py::test_a_required_rack_is_refused_while_topology_is_switched_off"
    ),
    "`TopologyLevelsUnavailable=False` `AllClusterTopologyLevelsAvailable`": NOTHING,
}

OF_GANGS_THAT_WAIT: Final[Mapping[str, Advice]] = {
    "`Initialized=False` `PodGangPodsCreationPending`": done_by(
        "scenarios/test_failures.py::"
        "test_a_quota_that_stops_pods_is_told_everywhere_and_lifting_it_lets_the_gang_run",
        lacks="a webhook, and PodSecurity",
    ),
    "`Initialized` `PodGangPodsCreated`": NOTHING,
    "`Scheduled=False` `WaitingForPods`": ELSEWHERE,
    "`Scheduled=False` `PodCreateFailed`": done_by(
        "scenarios/test_failures.py::"
        "test_a_quota_that_stops_pods_is_told_everywhere_and_lifting_it_lets_the_gang_run",
        lacks="a webhook, and PodSecurity",
    ),
    "`Scheduled=False` `ScaledToZero`": done_by(
        "scenarios/test_scaling_groups.py::"
        "test_everything_goes_to_zero_from_the_inside_out_and_comes_back_from_the_outside_in"
    ),
    "`Scheduled=False` `WaitingForBaseGang`": ELSEWHERE,
    "`Scheduled=False` `ScaledBelowMinimum`": done_by(
        "scenarios/test_autoscaling.py::test_a_role_below_its_minimum_is_told_and_left_to_whoever_scales_it",
        lacks="it is scaled up there; no test lowers the minimum, or edits an autoscaler of somebody else's",
    ),
    "`Scheduled=False` `SteppedBack`": done_by(
        "scenarios/test_gang_stories.py::"
        "test_an_urgent_gang_takes_the_place_of_another_which_steps_back_and_comes_back_whole",
        "scenarios/test_disruption.py::test_a_preempted_gang_says_so_and_comes_back_when_there_is_room",
        lacks="no test raises the priority of the gang",
    ),
    "`Scheduled=False` `SchedulingGated`": done_by(
        "scenarios/test_repair.py::test_gates_of_others_survive_ours"
    ),
    "`Scheduled=False` `WaitingForScheduler`": ELSEWHERE,
    "`Scheduled=False` `Queued`": ELSEWHERE,
    "`Scheduled=False` `OverLimit`": done_by(
        "e2e/test_causes.py::test_a_queue_without_a_share_left_is_named",
        lacks="other work in the queue ends there; no test raises its limit",
    ),
    "`Scheduled=False` `NonPreemptibleOverQuota`": untested(
        "no test gives a gang of the real KAI a priority of 100 or more, and the simulated one has no quotas"
    ),
    "`Scheduled=False` `ShareUsedUp`": done_by(
        "e2e/test_causes.py::test_a_queue_without_a_share_left_is_named",
        lacks="other work in the queue ends there; no test raises its max or its capability",
    ),
    "`Scheduled=False` `QueueDoesNotExist`": done_by(
        "scenarios/test_capacity.py::test_a_gang_in_a_queue_that_does_not_exist_says_so_and_runs_when_it_comes",
        lacks="the queue is created there; no test corrects the label of a gang that waits",
    ),
    "`Scheduled=False` `TopologyNotFound`": done_by(
        "scenarios/test_topology.py::test_a_gang_whose_referenced_topology_is_missing_says_so_and_runs_when_it_comes"
    ),
    "`Scheduled=False` `Unschedulable`": done_by(
        "scenarios/test_volcano.py::test_one_node_short_binds_nobody_says_why_and_a_node_more_lets_it_run",
        # "minimum lowered" and "topology relaxed" are two of the disturbances.
        "scenarios/test_disturbances.py::test_a_disturbed_set_ends_right",
        lacks="no test grants the operator the reading of events meanwhile",
    ),
    "`Scheduled=False` `ResourceReservationTimeout`": done_by(
        "scenarios/test_yunikorn.py::"
        "test_a_gang_that_yunikorn_gave_up_says_so_and_is_tried_again_as_another_application",
        lacks="there is room there; no test gives it more time",
    ),
    "`Scheduled=False` `ApplicationRejected`": done_by(
        "scenarios/test_yunikorn.py::test_a_gang_that_is_rejected_again_and_again_is_tried_ever_less_often",
        lacks="the queue is enlarged there; no test names another",
    ),
    "`Scheduled=False` `SchedulingSkipped`": done_by(
        "scenarios/test_causes.py::"
        "test_a_gang_whose_yunikorn_queue_has_no_share_left_names_the_queue_until_it_has_one"
    ),
    "`Scheduled=False` `SchedulerError`": untested(
        "no simulated scheduler fails on a set that Grove accepts; the reading of it is tested"
    ),
    "`Scheduled=False` `PreconditionMissing`": done_by(
        "scenarios/test_failures.py::test_a_gang_waits_for_kai_to_be_installed_and_then_comes_alive",
        "scenarios/test_koordinator.py::test_a_quota_that_does_not_exist_yet_is_waited_for",
        "scenarios/test_volcano.py::test_a_gang_of_a_closed_queue_says_so_and_runs_when_it_is_opened",
    ),
    "`Scheduled` `BackendNotEnabled`": done_by(
        "scenarios/test_failures.py::"
        "test_a_backend_that_is_switched_off_keeps_its_gangs_and_says_so_until_it_is_back",
        "scenarios/test_reloading.py::test_a_set_that_leaves_a_disabled_backend_takes_its_objects_along",
    ),
    "`Scheduled=False` `Unsupported`": done_by(
        "scenarios/test_failures.py::test_a_gang_that_cannot_be_translated_says_why_until_it_is_changed",
        lacks="that gang has no set: sets say it in `Accepted`",
    ),
    "`Scheduled=False` `BeingDeleted`": ELSEWHERE,
    "`Scheduled=False` `OwnershipConflict`": ELSEWHERE,
    "`Scheduled=False` `SyncFailed`": done_by(
        "scenarios/test_failures.py::"
        "test_an_api_server_that_refuses_scheduler_objects_for_a_while_only_delays_the_gang",
        lacks="the refusal ends there by itself",
    ),
    "`Scheduled` `Scheduled`": NOTHING,
}

OF_GANGS_THAT_RUN: Final[Mapping[str, Advice]] = {
    "`Ready=False` `PodsNotReady`": ELSEWHERE,
    "`Ready=False` `PodsSucceeded`": untested("no scenario runs a gang again whose pods have succeeded"),
    "`Ready` `AllPodsReady`": NOTHING,
    "`Unhealthy=True` `PodsFailing`": done_by(
        "scenarios/test_repair.py::test_a_gang_that_lost_pods_it_cannot_replace_is_unhealthy_until_it_can",
        "scenarios/test_hostnames.py::test_a_gang_that_loses_all_of_its_nodes_is_restarted_on_others",
    ),
    "`DisruptionTarget=True`": done_by(
        "scenarios/test_disruption_budgets.py::"
        "test_a_drain_waits_for_replacements_and_leaves_every_role_its_minimum"
    ),
    "`DisruptionTarget=True` `NodeNotReady`": done_by(
        "scenarios/test_disruption.py::"
        "test_a_gang_says_which_node_does_not_answer_and_no_longer_when_it_does_again",
        "scenarios/test_disruption.py::"
        "test_the_pods_of_a_deleted_node_come_back_and_an_event_says_what_became_of_them",
    ),
    "`GangGuarantee=False` `PodsOutsideGang`": done_by(
        "adoption/test_afterwards.py::test_a_gang_that_is_lost_as_a_whole_comes_back_as_one_of_ours"
    ),
    "`GangGuarantee=False` `NoGangAPI`": done_by(
        "scenarios/test_failures.py::test_a_gang_api_that_appears_later_is_used_for_new_gangs",
        lacks="no test sets `gangScheduling: Required` under a gang that runs",
    ),
    "`TranslationLoss=True` `CannotExpress`": untested(
        "to accept it is nothing to do, and for another scheduler see `BackendChangePending`"
    ),
    "`BackendChangePending=True` `PodsStillPlaced`": done_by(
        "scenarios/test_moving.py::"
        "test_it_moves_once_its_pods_are_gone_and_nothing_of_the_first_scheduler_is_left",
        "scenarios/test_moving.py::test_changing_ones_mind_leaves_everything_as_it_was",
    ),
    "`StrayPods=True` `NoOwner`": untested("no scenario makes such pods and removes them again"),
    "`StuckPods=True` `StuckTerminating`": done_by(
        "scenarios/test_pods.py::test_a_node_that_comes_back_ends_what_was_stuck_on_it",
        "scenarios/test_hostnames.py::test_a_pod_that_no_kubelet_stops_is_replaced_after_a_while_and_told",
        lacks="no test marks the node as out of service, or deletes the pod by force",
    ),
    "`PodsAboveMinimumPending=True` `Unschedulable`": done_by(
        "scenarios/test_capacity.py::test_pods_above_the_minimum_that_find_no_room_are_told_until_they_do",
        lacks="nodes are added there; no test ends other work or scales the role down",
    ),
    "`Degraded=True` `BeingDeleted`": done_by(
        "scenarios/test_attacks_on_objects.py::"
        "test_a_gang_that_a_finalizer_keeps_says_how_many_pods_it_has_and_the_way_out",
        lacks="no test deletes the pods of a gang that is deleted in the foreground",
    ),
    "`Degraded=True` `SyncFailed`, `Unsupported`, `PreconditionMissing`, `BackendNotEnabled`": ELSEWHERE,
    "`OwnershipConflict=True` `FieldOwnedByOther`": done_by(
        "scenarios/test_repair.py::test_another_controller_that_insists_on_a_field_of_ours_is_named_and_not_fought"
    ),
}

OF_THE_OTHERS: Final[Mapping[str, Advice]] = {
    "`PodCliqueScheduled=False` `InsufficientScheduledPods`": ELSEWHERE,
    "`PodCliqueScheduled` `SufficientScheduledPods`": NOTHING,
    "`Ready=False` `PodsNotReady`, `Available=False` `InsufficientReadyPods`": ELSEWHERE,
    "`Ready=False` `ReplicasUnavailable`, `Available=False` "
    "`InsufficientAvailablePodCliqueScalingGroupReplicas`": ELSEWHERE,
    "`Available` `SufficientAvailablePodCliqueScalingGroupReplicas`": NOTHING,
    "`MinAvailableBreached=True` `InsufficientAvailablePodCliqueScalingGroupReplicas`": ELSEWHERE,
    "`GangTerminationInProgress=True` `GangTerminationActive`": ELSEWHERE,
    "`MinAvailableBreached=True` `InsufficientReadyPods`": ELSEWHERE,
    "`MinAvailableBreached=True` `ScheduledReplicasBelowMinAvailable`": ELSEWHERE,
    "`MinAvailableBreached=False` `SufficientReadyPods`": NOTHING,
    "`MinAvailableBreached=Unknown` `UpdateInProgress`": NOTHING,
    "`MinAvailableReached=True` `SufficientReadyPods`": NOTHING,
    "`Accepted=False` `Invalid` (ClusterTopologyBinding)": done_by(
        "scenarios/test_topology.py::test_a_binding_that_contradicts_itself_is_not_acted_on"
    ),
    "`Accepted=True` `Valid` (ClusterTopologyBinding)": NOTHING,
    "`SchedulerTopologyDrift=True` `Drift`": done_by(
        "scenarios/test_topology.py::test_levels_that_drift_apart_are_told_and_told_again_when_they_agree",
        lacks="they are made equal there; no test creates what is missing, or removes the reference",
    ),
    "`SchedulerTopologyDrift=Unknown` `TopologyNotFound`": untested(
        "no scenario enables a scheduler that a binding refers to"
    ),
    "`SchedulerTopologyDrift=False` `InSync`": NOTHING,
}

_PARTS: Final = (
    ON_EVERY_KIND,
    OF_REFUSED_SETS,
    OF_SETS,
    OF_GANGS_THAT_WAIT,
    OF_GANGS_THAT_RUN,
    OF_THE_OTHERS,
)
#: By the first cell of a row.
ADVICE: Final[Mapping[str, Advice]] = {row: advice for part in _PARTS for row, advice in part.items()}
