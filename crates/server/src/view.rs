//! A team's state in the words of `--json`; it reads the state and never changes it.

use aion_api::{
    Actor, AgentRow, AgentStatus, EventLine, MailRow, RequestRow, Role, StatusReason, TaskCounts,
    TaskRow, TaskState,
};
use aion_core::agent::{self, Agent};
use aion_core::command::Caller;
use aion_core::event::Recorded;
use aion_core::id::{RequestId, SlotId};
use aion_core::mailbox::Place;
use aion_core::message::{Body, Envelope, Recipient, Sender, shorten};
use aion_core::request::{Request, RequestKind, RequestState};
use aion_core::task::TaskStatus;
use aion_core::team::{Reason, Status, Team};
use aion_core::time::Timestamp;
use serde::Serialize;

/// The wire word of a plain enum; a value that is more than a word has none.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

/// A member's name; one that left keeps its slot for a name.
pub fn name_of(team: &Team, slot: SlotId) -> String {
    team.agent(slot).map_or_else(|| slot.to_string(), |agent| agent.name().to_string())
}

/// Who speaks.
pub fn sender_name(team: &Team, sender: Sender) -> String {
    match sender {
        Sender::User => "user".to_owned(),
        Sender::System => "system".to_owned(),
        Sender::Agent(slot) => name_of(team, slot),
    }
}

/// Who is addressed.
pub fn recipient_name(team: &Team, recipient: Recipient) -> String {
    match recipient {
        Recipient::User => "user".to_owned(),
        Recipient::Everyone => "*".to_owned(),
        Recipient::Lead => name_of(team, SlotId::LEAD),
        Recipient::Agent(slot) => name_of(team, slot),
    }
}

/// The members, by slot.
pub fn agents(team: &Team) -> Vec<AgentRow> {
    team.agents().map(|agent| agent_row(team, agent)).collect()
}

fn agent_row(team: &Team, agent: &Agent) -> AgentRow {
    let (status, reason) = status(team, agent.slot());
    AgentRow {
        slot_id: agent.slot().0.into(),
        agent_name: agent.name().to_string(),
        label: agent.label().to_owned(),
        role: match agent.role() {
            agent::Role::Lead => Role::Lead,
            agent::Role::Teammate => Role::Teammate,
            agent::Role::Solo => Role::Solo,
        },
        agent_type: agent.agent_type().to_owned(),
        model: agent.model().map(str::to_owned),
        color: agent.color().to_owned(),
        permission_mode: agent.mode().as_str().to_owned(),
        status,
        reason,
        unread: u32::try_from(agent.mailbox().unread()).unwrap_or(u32::MAX),
        conversation_id: agent.conversation().to_string(),
    }
}

/// Where a member stands, and why.
pub fn status(team: &Team, slot: SlotId) -> (AgentStatus, StatusReason) {
    let Some((status, reason)) = team.status(slot) else {
        return (AgentStatus::Removed, StatusReason::NoTask);
    };
    let status = match status {
        Status::Pending => AgentStatus::Pending,
        Status::Idle => AgentStatus::Idle,
        Status::Active => AgentStatus::Active,
        Status::Failed => AgentStatus::Failed,
        Status::Removed => AgentStatus::Removed,
    };
    let reason = match reason {
        Reason::Working => StatusReason::Working,
        Reason::NeedsYou => StatusReason::NeedsYou,
        Reason::WaitingForPeer => StatusReason::WaitingForPeer,
        Reason::NoTask => StatusReason::NoTask,
        Reason::RateLimited => StatusReason::RateLimited,
        Reason::Held => StatusReason::Held,
        Reason::Stalled => StatusReason::Stalled,
        Reason::Starting => StatusReason::Starting,
        Reason::Stopping => StatusReason::Stopping,
    };
    (status, reason)
}

/// The board, by number. `name` knows how to call an owner, also one that has left.
pub fn tasks(team: &Team, name: impl Fn(SlotId) -> String) -> Vec<TaskRow> {
    let board = team.board();
    let open = board.open().values().map(|task| TaskRow {
        id: task.id().0.into(),
        subject: task.subject().to_owned(),
        status: match task.status() {
            TaskStatus::InProgress => TaskState::InProgress,
            TaskStatus::Pending | TaskStatus::Completed | TaskStatus::Deleted => TaskState::Pending,
        },
        ready: board.is_ready(task),
        owner: task.owner().map(&name),
        blocked_by: board.waits_for(task).into_iter().map(|id| id.0.into()).collect(),
        version: Some(task.version()),
    });
    let done = board.done().iter().map(|(id, task)| TaskRow {
        id: id.0.into(),
        subject: task.subject.clone(),
        status: TaskState::Completed,
        ready: false,
        owner: task.owner.map(&name),
        blocked_by: Vec::new(),
        version: None,
    });
    let mut rows: Vec<TaskRow> = open.chain(done).collect();
    rows.sort_by_key(|row| row.id);
    rows
}

/// How many tasks stand where.
pub fn task_counts(team: &Team) -> TaskCounts {
    let board = team.board();
    let in_progress =
        board.open().values().filter(|task| task.status() == TaskStatus::InProgress).count();
    TaskCounts {
        completed: board.done().len() as u64,
        in_progress: in_progress as u64,
        pending: (board.open().len() - in_progress) as u64,
    }
}

/// What waits for a decision, the oldest first.
pub fn requests(team: &Team, now: Timestamp) -> Vec<RequestRow> {
    team.requests()
        .filter(|(_, state)| !matches!(state, RequestState::Decided { .. }))
        .map(|(request, _)| request_row(team, request, now))
        .collect()
}

/// One request that waits.
pub fn request(team: &Team, id: RequestId, now: Timestamp) -> Option<RequestRow> {
    team.request(id).map(|(request, _)| request_row(team, request, now))
}

fn request_row(team: &Team, request: &Request, now: Timestamp) -> RequestRow {
    let ask = match &request.kind {
        RequestKind::Permission(ask) => Some(ask),
        RequestKind::Network(_)
        | RequestKind::Plan(_)
        | RequestKind::Shutdown(_)
        | RequestKind::Spawn(_)
        | RequestKind::CreateTeam(_)
        | RequestKind::RaiseBudget(_)
        | RequestKind::DeleteTeam
        | RequestKind::Question(_) => None,
    };
    RequestRow {
        id: request.id.0,
        team: team.id().map_or_else(String::new, ToString::to_string),
        kind: request.kind.name().to_owned(),
        from: sender_name(team, request.from),
        what: what(team, &request.kind),
        tool: ask.map(|ask| ask.tool.clone()),
        input: ask.map(|ask| ask.input.clone()),
        cwd: ask.map(|ask| ask.cwd.clone()),
        asked_by: ask
            .and_then(|ask| ask.finding.as_ref())
            .map(|finding| format!("{} in {}", finding.rule, finding.scope.words())),
        suggestion: ask.and_then(|ask| ask.suggestion.as_ref()).map(ToString::to_string),
        choices: choices(&request.kind).iter().map(|choice| (*choice).to_owned()).collect(),
        delegated: request.delegated,
        waiting_ms: (now - request.asked_at).0,
    }
}

/// What is asked, in a sentence.
pub fn what(team: &Team, kind: &RequestKind) -> String {
    match kind {
        RequestKind::Permission(ask) => ask.description.clone(),
        RequestKind::Network(ask) => format!("connect to {}", ask.host),
        RequestKind::Plan(plan) => format!("begin by this plan: {}", plan.text),
        RequestKind::Shutdown(handshake) => {
            let why = handshake.reason.as_deref().map_or(String::new(), |why| format!(": {why}"));
            let who = name_of(team, handshake.slot);
            if handshake.by == Sender::Agent(handshake.slot) {
                format!("leave the team{why}")
            } else {
                format!("{who} is to leave the team{why}")
            }
        }
        RequestKind::Spawn(proposal) => {
            let member = &proposal.member;
            format!("bring in {} ({}): {}", member.name, member.agent_type, member.prompt)
        }
        RequestKind::CreateTeam(proposal) => {
            format!("make the team {:?}: {}", proposal.name, proposal.summary)
        }
        RequestKind::RaiseBudget(raise) => format!(
            "spend up to {} tokens and ${}.{:02}: {}",
            raise.cap.tokens,
            raise.cap.micro_usd / 1_000_000,
            raise.cap.micro_usd % 1_000_000 / 10_000,
            raise.reason
        ),
        RequestKind::DeleteTeam => "end the team".to_owned(),
        RequestKind::Question(question) => question.text.clone(),
    }
}

fn choices(kind: &RequestKind) -> &'static [&'static str] {
    match kind {
        RequestKind::Permission(_) | RequestKind::Network(_) => &["allow", "deny"],
        RequestKind::Plan(_) => &["approve_plan", "return_plan"],
        RequestKind::Shutdown(handshake) if handshake.by == Sender::Agent(handshake.slot) => {
            &["approve_shutdown", "reject_shutdown", "force_shutdown"]
        }
        RequestKind::Shutdown(_) => &["force_shutdown", "withdraw"],
        RequestKind::Spawn(_)
        | RequestKind::CreateTeam(_)
        | RequestKind::RaiseBudget(_)
        | RequestKind::DeleteTeam => &["consent", "decline"],
        RequestKind::Question(_) => &["answer", "decline"],
    }
}

/// Mail that some mailbox still owes, by mailbox and number.
pub fn mail(team: &Team) -> Vec<MailRow> {
    let mut rows = Vec::new();
    for agent in team.agents() {
        for (id, entry) in agent.mailbox().entries() {
            let Some(message) = team.message(*id) else { continue };
            rows.push(MailRow {
                id: id.0,
                from: sender_name(team, message.from),
                to: agent.name().to_string(),
                kind: kind_of(message).to_owned(),
                text: text_of(message),
                in_turn: match entry.place() {
                    Place::Queued => None,
                    Place::InTurn(turn) => Some(turn.0),
                },
                held: entry.held(),
                attempts: entry.attempts(),
            });
        }
    }
    rows
}

/// The kind of a message: `text`, or the name of a protocol message.
pub fn kind_of(message: &Envelope) -> &'static str {
    match &message.body {
        Body::Text(_) => "text",
        Body::Protocol(protocol) => protocol.kind(),
    }
}

/// What a message says, as far as it is text.
pub fn text_of(message: &Envelope) -> String {
    match &message.body {
        Body::Text(text) => text.clone(),
        Body::Protocol(protocol) => serde_json::to_string(protocol)
            .map_or_else(|_| String::new(), |text| shorten(&text, 4 * 1024)),
    }
}

/// An event in the words of `--json`.
pub fn event_line(team: &str, recorded: &Recorded) -> EventLine {
    EventLine {
        team: team.to_owned(),
        seq: recorded.seq.0,
        at: recorded.at.0,
        version: recorded.version,
        actor: match recorded.actor {
            Caller::User => Actor::User,
            Caller::Agent(slot) => Actor::Agent(slot.0.into()),
            Caller::System => Actor::System,
        },
        event: serde_json::to_value(&recorded.event).unwrap_or_default(),
    }
}
