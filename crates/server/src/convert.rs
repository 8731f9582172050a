//! The words of the wire for what core says, and the other way round; it never decides.

use aion_api::{
    AgentResponse, ApprovalResponse, DecisionParams, DeliveryRow, DeliveryState, MessageRow,
    PermissionModeParam, ScopeParam, StreamFrame, TaskResponse, TaskRow, TaskStatusParam,
    TeamEvent, TeamResponse, UrgencyParam,
};
use aion_core::agent::{Agent, PermissionMode};
use aion_core::command::Command;
use aion_core::event::{Event, Recorded};
use aion_core::id::{ConversationId, RequestId, SlotId, TaskId, TeamId};
use aion_core::message::{Envelope, Sender, Urgency};
use aion_core::permission::GrantScope;
use aion_core::request::{Decision, RequestState};
use aion_core::rule::{InvalidRule, Rule};
use aion_core::task::{Task, TaskStatus};
use aion_core::team::Team;
use aion_core::time::Timestamp;
use aion_core::turn::TurnOutcome;
use aion_runtime::{Deliveries, Delta, LiveDelta, MessageState};
use sha2::{Digest, Sha256};

use crate::auth::hex;
use crate::error::Failure;
use crate::view;

/// What an event is about, in the names of the wire.
pub(crate) fn event_name(event: &Event) -> &'static str {
    match event {
        Event::TeamCreated { .. } => "team.created",
        Event::TeamRenamed { .. } => "team.renamed",
        Event::TeamEnded => "team.removed",
        Event::SettingsChanged { .. }
        | Event::TeamHeld { .. }
        | Event::TeamReleased { .. }
        | Event::TeamOpened { .. }
        | Event::GrantAdded { .. }
        | Event::GrantRevoked { .. }
        | Event::DelegationChanged { .. } => "team.settings",
        Event::AgentSpawned { .. } => "team.agent.spawned",
        Event::AgentReady { .. }
        | Event::AgentFailed { .. }
        | Event::AgentRestarting { .. }
        | Event::AgentHeld { .. }
        | Event::AgentReleased { .. }
        | Event::ModeChanged { .. }
        | Event::ModelChanged { .. }
        | Event::AgentStopping { .. }
        | Event::FactObserved { .. } => "team.agent.status",
        Event::AgentRenamed { .. } => "team.agent.renamed",
        Event::AgentRemoved { .. } => "team.agent.removed",
        Event::MessageSent { .. } => "team.message",
        Event::MessageDelivered { .. }
        | Event::MessageReturned { .. }
        | Event::MessageSuperseded { .. }
        | Event::MessageDeadLettered { .. }
        | Event::KeyUsed { .. } => "team.delivery",
        Event::TurnStarted { .. } | Event::TurnResumed { .. } => "team.turn.started",
        Event::TurnDetached { .. }
        | Event::InterruptRequested { .. }
        | Event::ToolProposed { .. }
        | Event::ToolStarted { .. }
        | Event::ToolRefused { .. }
        | Event::SandboxViolation { .. }
        | Event::ToolFinished { .. } => "team.turn.progress",
        Event::TurnEnded { .. } => "team.turn.ended",
        Event::TaskCreated { .. } | Event::TaskChanged { .. } => "team.task",
        Event::RequestOpened { .. }
        | Event::RequestEscalated { .. }
        | Event::RequestOrphaned { .. } => "team.approval.requested",
        Event::RequestDecided { .. }
        | Event::RequestWithdrawn { .. }
        | Event::TeamLinked { .. } => "team.approval.resolved",
        Event::CallReserved { .. } | Event::UsageRecorded { .. } | Event::CapChanged { .. } => {
            "team.usage"
        }
    }
}

/// Whether an event concerns the user beyond the team: teams come and go, and requests.
pub(crate) fn concerns_user(event: &Event) -> bool {
    matches!(
        event_name(event),
        "team.created"
            | "team.renamed"
            | "team.removed"
            | "team.approval.requested"
            | "team.approval.resolved"
    )
}

/// An event as the wire has it.
pub(crate) fn team_event(team: &TeamId, recorded: &Recorded) -> TeamEvent {
    let line = view::event_line(team.as_str(), recorded);
    TeamEvent {
        name: event_name(&recorded.event).to_owned(),
        team_id: line.team,
        seq: line.seq,
        at: line.at,
        actor: line.actor,
        data: line.event,
    }
}

/// A piece of a running turn as the wire has it.
pub(crate) fn stream_frame(team: &TeamId, live: &LiveDelta) -> StreamFrame {
    let turn = live.turn.0;
    let mut frame = StreamFrame {
        name: "message.stream".to_owned(),
        team_id: team.to_string(),
        slot_id: live.slot.0.into(),
        turn,
        kind: String::new(),
        item: String::new(),
        offset: live.offset,
        text: String::new(),
        tool: None,
        ok: None,
    };
    let mut fill = |kind: &str, item: String, text: &str| {
        kind.clone_into(&mut frame.kind);
        frame.item = item;
        text.clone_into(&mut frame.text);
    };
    match &*live.delta {
        Delta::Text { step, text } => fill("text", format!("{turn}.{step}.text"), text),
        Delta::Thought { step, text } => fill("thought", format!("{turn}.{step}.thought"), text),
        Delta::Called { step, call, tool, description } => {
            fill("tool_call", format!("{turn}.{step}.{call}"), description);
            frame.tool = Some(tool.clone());
        }
        Delta::Got { step, call, ok, text } => {
            fill("tool_result", format!("{turn}.{step}.{call}"), text);
            frame.ok = Some(*ok);
        }
    }
    frame
}

/// The end of a turn, for those who follow what it writes.
pub(crate) fn stream_end(team: &TeamId, event: &Event) -> Option<StreamFrame> {
    let Event::TurnEnded { turn, slot, outcome, .. } = event else { return None };
    let (kind, text) = match outcome {
        TurnOutcome::Done { .. } | TurnOutcome::Interrupted => ("finish", String::new()),
        TurnOutcome::Unavailable { why, said, .. } => {
            ("error", said.clone().unwrap_or_else(|| view::word(why)))
        }
        TurnOutcome::Lost => ("error", "lost".to_owned()),
        TurnOutcome::AgentFault { error } => ("error", error.clone()),
    };
    Some(StreamFrame {
        name: "message.stream".to_owned(),
        team_id: team.to_string(),
        slot_id: slot.0.into(),
        turn: turn.0,
        kind: kind.to_owned(),
        item: format!("{turn}.end", turn = turn.0),
        offset: 0,
        text,
        tool: None,
        ok: None,
    })
}

/// A team.
pub(crate) fn team_response(team: &Team) -> TeamResponse {
    TeamResponse {
        id: team.id().map_or_else(String::new, ToString::to_string),
        user_id: team.owner().to_owned(),
        name: team.name().to_owned(),
        workspace: team.workspace().to_owned(),
        workspace_mode: "shared".to_owned(),
        lead_slot_id: SlotId::LEAD.0.into(),
        agents: agents(team),
        ended: team.is_ended(),
        holds: team.holds().map(|hold| view::word(&hold)).collect(),
        task_counts: view::task_counts(team),
        requests_open: team
            .requests()
            .filter(|(_, state)| !matches!(state, RequestState::Decided { .. }))
            .count() as u64,
        settings: serde_json::to_value(team.settings()).unwrap_or_default(),
    }
}

/// What of a team a person edits, as a tag that changes with it.
pub(crate) fn team_tag(team: &Team) -> String {
    tag(&(team.name(), team.settings()))
}

/// What of a member a person edits, as a tag that changes with it.
pub(crate) fn agent_tag(agent: &Agent) -> String {
    tag(&(agent.name(), agent.label(), agent.model(), agent.mode()))
}

fn tag(value: &impl serde::Serialize) -> String {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    hex(&Sha256::digest(&bytes)[..8])
}

/// The members, by slot.
pub(crate) fn agents(team: &Team) -> Vec<AgentResponse> {
    let id = team.id().map_or_else(String::new, ToString::to_string);
    view::agents(team)
        .into_iter()
        .map(|row| AgentResponse { agent_id: format!("{}@{id}", row.agent_name), row })
        .collect()
}

/// One member.
pub(crate) fn agent(team: &Team, slot: SlotId) -> Option<AgentResponse> {
    agents(team).into_iter().find(|agent| agent.row.slot_id == u64::from(slot.0))
}

/// The board.
pub(crate) fn tasks(team: &Team) -> Vec<TaskResponse> {
    view::tasks(team, |slot| view::name_of(team, slot))
        .into_iter()
        .map(|row| task_response(team, row))
        .collect()
}

/// One task.
pub(crate) fn task(team: &Team, id: TaskId) -> Option<TaskResponse> {
    let row = view::tasks(team, |slot| view::name_of(team, slot))
        .into_iter()
        .find(|row| row.id == u64::from(id.0))?;
    Some(task_response(team, row))
}

fn task_response(team: &Team, row: TaskRow) -> TaskResponse {
    let id = u32::try_from(row.id).map(TaskId).ok();
    let open = id.and_then(|id| team.board().open().get(&id));
    let done = id.and_then(|id| team.board().done().get(&id));
    TaskResponse {
        description: open.map(|task| task.description().to_owned()),
        active_form: open.and_then(|task| task.active_form().map(str::to_owned)),
        owner_slot_id: open
            .and_then(Task::owner)
            .or_else(|| done.and_then(|task| task.owner))
            .map(|slot| slot.0.into()),
        row,
    }
}

/// What waits for a decision, the oldest first.
pub(crate) fn approvals(team: &Team, now: Timestamp) -> Vec<ApprovalResponse> {
    view::requests(team, now)
        .into_iter()
        .map(|row| {
            let request = team.request(RequestId(row.id));
            ApprovalResponse {
                request_id: format!("{}.r{}", row.team, row.id),
                detail: request
                    .map(|(request, _)| serde_json::to_value(&request.kind).unwrap_or_default())
                    .unwrap_or_default(),
                row,
            }
        })
        .collect()
}

/// The handle of a request in the world.
pub(crate) fn request_handle(team: &TeamId, request: RequestId) -> String {
    format!("{team}.{request}")
}

/// The request that a handle names.
pub(crate) fn parse_request_handle(text: &str) -> Option<(TeamId, RequestId)> {
    let (team, request) = text.split_once('.')?;
    let number = request.strip_prefix('r')?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let request = plain.then(|| number.parse().ok().map(RequestId)).flatten()?;
    Some((TeamId::new(team).ok()?, request))
}

/// A message with where it still is.
pub(crate) fn message_row(
    recorded: &Recorded,
    message: &Envelope,
    recipients: &[SlotId],
    deliveries: Deliveries,
) -> MessageRow {
    MessageRow {
        message_id: message.id.to_string(),
        seq: recorded.seq.0,
        at: recorded.at.0,
        from: match message.from {
            Sender::User => "user".to_owned(),
            Sender::System => "system".to_owned(),
            Sender::Agent(slot) => slot.to_string(),
        },
        to: recipients.iter().map(|slot| slot.0.into()).collect(),
        kind: view::kind_of(message).to_owned(),
        text: view::text_of(message),
        again: message.again.map(|again| again.to_string()),
        deliveries: deliveries.into_iter().map(delivery).collect(),
    }
}

fn delivery((slot, state): (SlotId, MessageState)) -> DeliveryRow {
    let state = match state {
        MessageState::Queued => DeliveryState::Queued,
        MessageState::Delivered => DeliveryState::Delivered,
        MessageState::Acknowledged => DeliveryState::Acknowledged,
        MessageState::Superseded => DeliveryState::Superseded,
        MessageState::Dead => DeliveryState::Dead,
    };
    DeliveryRow { slot_id: slot.0.into(), state }
}

/// The conversation of a member that is brought in under an idempotency key: the same for the same
/// key, so that a repetition is the same command.
pub(crate) fn keyed_conversation(team: &TeamId, key: &str) -> Result<ConversationId, Failure> {
    let drawn = Sha256::new().chain_update(team.as_str()).chain_update("/").chain_update(key);
    ConversationId::new(hex(&drawn.finalize()[..16]))
        .map_err(|why| Failure::invalid("header.invalid", why))
}

pub(crate) fn mode(mode: PermissionModeParam) -> PermissionMode {
    match mode {
        PermissionModeParam::Plan => PermissionMode::Plan,
        PermissionModeParam::DontAsk => PermissionMode::DontAsk,
        PermissionModeParam::Default => PermissionMode::Default,
        PermissionModeParam::AcceptEdits => PermissionMode::AcceptEdits,
        PermissionModeParam::BypassPermissions => PermissionMode::BypassPermissions,
    }
}

pub(crate) fn urgency(urgency: UrgencyParam) -> Urgency {
    match urgency {
        UrgencyParam::Queue => Urgency::Queue,
        UrgencyParam::Wake => Urgency::Wake,
        UrgencyParam::Interrupt => Urgency::Interrupt,
    }
}

pub(crate) fn task_status(status: TaskStatusParam) -> TaskStatus {
    match status {
        TaskStatusParam::Pending => TaskStatus::Pending,
        TaskStatusParam::InProgress => TaskStatus::InProgress,
        TaskStatusParam::Completed => TaskStatus::Completed,
        TaskStatusParam::Deleted => TaskStatus::Deleted,
    }
}

/// The command that says a decision.
pub(crate) fn decision_command(
    request: RequestId,
    decision: DecisionParams,
) -> Result<Command, Failure> {
    let decision = match decision {
        DecisionParams::Allow { scope, rule: given } => Decision::Allow {
            rule: given.map(|text| rule(&text)).transpose()?,
            scope: match scope {
                ScopeParam::Once => GrantScope::Once,
                ScopeParam::Action => GrantScope::Action,
                ScopeParam::Member => GrantScope::Member,
                ScopeParam::Team => GrantScope::Team,
            },
        },
        DecisionParams::Deny { reason } => Decision::Deny { reason },
        DecisionParams::ApprovePlan { mode: given } => {
            Decision::ApprovePlan { mode: given.map(mode) }
        }
        DecisionParams::ReturnPlan { feedback } => Decision::ReturnPlan { feedback },
        DecisionParams::ApproveShutdown {} => Decision::ApproveShutdown,
        DecisionParams::RejectShutdown { reason } => Decision::RejectShutdown { reason },
        DecisionParams::ForceShutdown {} => Decision::ForceShutdown,
        DecisionParams::Withdraw {} => return Ok(Command::Withdraw { request }),
        DecisionParams::Consent {} => Decision::Consent,
        DecisionParams::Decline { reason } => Decision::Decline { reason },
        DecisionParams::Answer { text } => Decision::Answer { text },
    };
    Ok(Command::Decide { request, decision })
}

/// A rule as it is written, if it can be used.
fn rule(text: &str) -> Result<Rule, Failure> {
    let invalid = |why: String| Failure::invalid("rule.invalid", format!("{text:?}: {why}"));
    let rule: Rule = text.parse().map_err(|why: InvalidRule| invalid(why.to_string()))?;
    aion_runtime::check_rule(&rule).map_err(invalid)?;
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_a_shutdown_is_a_command() {
        let request = RequestId(7);
        assert_eq!(
            decision_command(request, DecisionParams::Withdraw {}),
            Ok(Command::Withdraw { request })
        );
        let decision = Decision::ForceShutdown;
        assert_eq!(
            decision_command(request, DecisionParams::ForceShutdown {}),
            Ok(Command::Decide { request, decision })
        );
    }

    #[test]
    fn a_request_has_one_handle_in_the_world() {
        let team = TeamId::new("ab-12-r3").unwrap();
        let handle = request_handle(&team, RequestId(7));
        assert_eq!(handle, "ab-12-r3.r7");
        assert_eq!(parse_request_handle(&handle), Some((team, RequestId(7))));
        for bad in ["", "r7", ".r7", "ab.7", "ab.r", "ab.r+7", "ab.r7.r8", "AB.r7", "ab.r-1"] {
            assert_eq!(parse_request_handle(bad), None, "{bad}");
        }
    }
}
