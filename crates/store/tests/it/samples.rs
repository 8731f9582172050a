//! One event of every kind, with every optional field filled; golden files are written from these.

use std::collections::{BTreeMap, BTreeSet};

use aion_core::agent::{Hold, MemberSpec, PermissionMode, RemovalReason, TeamHold};
use aion_core::budget::{Amount, Cap, Usage};
use aion_core::command::{Fact, KeyHash, Receipt, Settings};
use aion_core::consent::{BudgetRaise, ProposedMember, SpawnProposal, TeamProposal};
use aion_core::event::{DeadLetterReason, Event};
use aion_core::id::{AgentName, GrantId, MessageId, RequestId, SlotId, TaskId, TurnId};
use aion_core::message::{
    Body, Envelope, FileRef, IdleReason, ProtocolMessage, Recipient, Sender, Urgency,
};
use aion_core::permission::{
    Delegation, Grant, GrantRule, GrantScope, NetworkAsk, PermissionAsk, ToolClass,
};
use aion_core::plan::PlanSubmission;
use aion_core::question::Question;
use aion_core::request::{ActionHash, Decision, Request, RequestKind, Withdrawal};
use aion_core::rule::{Finding, Rule, RuleScope, RuleWord, SessionRules};
use aion_core::sandbox::ViolationKind;
use aion_core::shutdown::{ShutdownHandshake, ShutdownStage};
use aion_core::task::{TaskChange, TaskStatus};
use aion_core::time::Timestamp;
use aion_core::turn::{ToolVerdict, TurnOutcome, Unavailable};

use crate::events::{MATE, conversation, member, team};

const TURN: TurnId = TurnId(7);
const REQUEST: RequestId = RequestId(3);
const MESSAGE: MessageId = MessageId(11);
const TASK: TaskId = TaskId(2);

/// A name for each sample: the event's own, and what sets it apart where there are several.
pub(crate) fn all() -> Vec<(String, Event)> {
    let mut samples: Vec<(String, Event)> =
        one_of_each().into_iter().map(|event| (event.name().to_owned(), event)).collect();
    let mut add = |detail: &str, event: Event| {
        samples.push((format!("{}.{detail}", event.name()), event));
    };
    for message in protocol_messages() {
        add(message.kind(), message_sent(Body::Protocol(message.clone())));
    }
    for kind in request_kinds() {
        add(kind.name(), request_opened(kind.clone()));
    }
    for (detail, decision) in decisions() {
        add(detail, decided(decision));
    }
    add("pattern", Event::GrantAdded { grant: pattern() });
    add("rules", Event::SettingsChanged { settings: with_rules() });
    for (detail, outcome) in outcomes() {
        add(detail, turn_ended(outcome));
    }
    samples
}

fn rule() -> Rule {
    "Bash(cargo test:*)".parse().unwrap()
}

fn finding() -> Finding {
    Finding {
        says: RuleWord::Ask,
        rule: rule().to_string(),
        scope: RuleScope::Project,
        grant: Some(GrantId(1)),
    }
}

fn pattern() -> Grant {
    Grant { id: GrantId(2), slot: None, rule: GrantRule::Pattern(rule()), by: Sender::User }
}

fn with_rules() -> Settings {
    let (allow, ask, deny) = (vec![rule()], vec![rule()], vec![rule()]);
    Settings {
        rules: SessionRules { allow, ask, deny },
        member_mode: Some(PermissionMode::AcceptEdits),
        ..Settings::default()
    }
}

fn one_of_each() -> Vec<Event> {
    let mut events = team_events();
    events.extend(agent_events());
    events.extend(message_and_turn_events());
    events.extend(tool_and_task_events());
    events.extend(request_and_budget_events());
    events
}

fn team_events() -> Vec<Event> {
    let settings = Settings { cap: Some(cap()), ..Settings::default() };
    vec![
        Event::TeamCreated {
            team: team("t-1"),
            name: "Docs".to_owned(),
            owner: "ann".to_owned(),
            workspace: "/work".to_owned(),
            solo: true,
            lead: spec("team-lead"),
            settings: settings.clone(),
        },
        Event::TeamRenamed { name: "Docs 2".to_owned() },
        Event::SettingsChanged { settings },
        Event::TeamHeld { hold: TeamHold::LeadDown },
        Event::TeamReleased { hold: TeamHold::Downtime },
        Event::TeamOpened { downtime_ms: 1_500 },
        Event::TeamEnded,
    ]
}

fn agent_events() -> Vec<Event> {
    let hold = Hold::Provider { until: Some(Timestamp(90)) };
    vec![
        Event::AgentSpawned {
            slot: MATE,
            member: spec("writer"),
            consent: Some(REQUEST),
            by: Sender::Agent(SlotId::LEAD),
        },
        Event::AgentReady { slot: MATE, generation: 2 },
        Event::AgentFailed {
            slot: MATE,
            cause: "it panicked".to_owned(),
            retry_at: Some(Timestamp(80)),
        },
        Event::AgentRestarting { slot: MATE, generation: 3, by: Sender::System },
        Event::AgentRenamed {
            slot: MATE,
            name: AgentName::parse("editor").unwrap(),
            label: Some("Editor ✍".to_owned()),
        },
        Event::AgentHeld { slot: MATE, hold },
        Event::AgentReleased { slot: MATE, hold },
        Event::ModeChanged { slot: MATE, mode: PermissionMode::AcceptEdits },
        Event::ModelChanged { slot: MATE, model: Some("small".to_owned()) },
        Event::AgentStopping { slot: MATE, request: Some(REQUEST), kill: true },
        Event::AgentRemoved {
            slot: MATE,
            reason: RemovalReason::ShutdownApproved { request: REQUEST },
        },
    ]
}

fn message_and_turn_events() -> Vec<Event> {
    vec![
        message_sent(Body::Text("hello \"you\"\n\u{1}é✍".to_owned())),
        Event::MessageDelivered { message: MESSAGE, slot: MATE, turn: TURN, step: 3 },
        Event::MessageReturned { message: MESSAGE, slot: MATE, turn: TURN },
        Event::MessageSuperseded { message: MESSAGE, slot: MATE, by: MessageId(12) },
        Event::MessageDeadLettered {
            message: MESSAGE,
            slot: MATE,
            reason: DeadLetterReason::Attempts { error: "it failed".to_owned() },
        },
        Event::TurnStarted {
            turn: TURN,
            slot: MATE,
            batch: vec![MESSAGE],
            offer: Some(TASK),
            reserved: Some(amount()),
        },
        Event::TurnResumed { turn: TURN, slot: MATE },
        Event::TurnDetached { turn: TURN, slot: MATE, until: Timestamp(99) },
        Event::InterruptRequested { turn: TURN, slot: MATE, by: Sender::User },
        turn_ended(TurnOutcome::Done { last_text: Some("done".to_owned()) }),
    ]
}

fn tool_and_task_events() -> Vec<Event> {
    vec![
        Event::ToolProposed {
            turn: TURN,
            slot: MATE,
            call: "call-1".to_owned(),
            tool: "Bash".to_owned(),
            class: ToolClass::Execute,
            action: action(),
            description: "run the tests".to_owned(),
            verdict: ToolVerdict::Ask { request: REQUEST },
            grant: Some(GrantId(1)),
            finding: Some(finding()),
        },
        Event::ToolStarted { turn: TURN, slot: MATE, call: "call-1".to_owned(), request: REQUEST },
        Event::ToolRefused {
            turn: TURN,
            slot: MATE,
            call: "call-1".to_owned(),
            request: REQUEST,
            reason: "not now".to_owned(),
        },
        Event::ToolFinished {
            turn: TURN,
            slot: MATE,
            call: "call-1".to_owned(),
            ok: true,
            changed: true,
        },
        Event::SandboxViolation {
            turn: TURN,
            slot: MATE,
            call: "call-1".to_owned(),
            kind: ViolationKind::Refused,
            what: "touch: cannot touch '/x': Read-only file system".to_owned(),
        },
        Event::TaskCreated {
            task: TASK,
            subject: "write".to_owned(),
            description: "the page".to_owned(),
            active_form: Some("writing".to_owned()),
            owner: Some(MATE),
            blocked_by: vec![TaskId(1)],
            metadata: notes(),
            by: Sender::Agent(SlotId::LEAD),
        },
        Event::TaskChanged {
            task: TASK,
            change: TaskChange {
                subject: Some("write it".to_owned()),
                description: Some("the whole page".to_owned()),
                active_form: Some("writing it".to_owned()),
                status: Some(TaskStatus::InProgress),
                owner: Some(None),
                add_blocked_by: BTreeSet::from([TaskId(1)]),
                remove_blocked_by: BTreeSet::from([TaskId(3)]),
                metadata: notes(),
            },
            by: Sender::Agent(MATE),
        },
    ]
}

fn request_and_budget_events() -> Vec<Event> {
    vec![
        request_opened(RequestKind::DeleteTeam),
        decided(Decision::Consent),
        Event::RequestEscalated { request: REQUEST },
        Event::RequestOrphaned { request: REQUEST },
        Event::RequestWithdrawn { request: REQUEST, why: Withdrawal::AgentRemoved(MATE) },
        Event::TeamLinked { request: REQUEST, team: team("t-2") },
        Event::GrantAdded {
            grant: Grant {
                id: GrantId(1),
                slot: Some(MATE),
                rule: GrantRule::Action { action: action(), once: true },
                by: Sender::User,
            },
        },
        Event::GrantRevoked { grant: GrantId(1) },
        Event::DelegationChanged {
            delegation: Delegation {
                plans: false,
                tools: BTreeSet::from(["Bash".to_owned()]),
                hosts: BTreeSet::from(["example.org".to_owned()]),
            },
        },
        Event::CallReserved { turn: TURN, slot: MATE, amount: amount(), usage: usage() },
        Event::UsageRecorded { slot: MATE, usage: usage() },
        Event::CapChanged { cap: Some(cap()) },
        Event::KeyUsed {
            key: key(),
            receipt: Receipt {
                message: Some(MESSAGE),
                task: Some(TASK),
                request: Some(REQUEST),
                slot: Some(MATE),
            },
        },
        Event::FactObserved {
            fact: Fact::ChangedTask {
                slot: MATE,
                task: TASK,
                change: TaskChange { status: Some(TaskStatus::Completed), ..TaskChange::default() },
            },
            conflict: Some("task_blocked".to_owned()),
        },
    ]
}

fn message_sent(body: Body) -> Event {
    Event::MessageSent {
        message: Envelope {
            id: MESSAGE,
            from: Sender::Agent(SlotId::LEAD),
            to: Recipient::Everyone,
            body,
            summary: Some("hello".to_owned()),
            urgency: Urgency::Interrupt,
            files: vec![FileRef {
                name: "a.txt".to_owned(),
                sha256: action().to_string(),
                bytes: 12,
            }],
            again: None,
            sent_at: Timestamp(70),
        },
        recipients: vec![MATE, SlotId(3)],
        held: true,
        key: Some(key()),
    }
}

fn request_opened(kind: RequestKind) -> Event {
    Event::RequestOpened {
        request: Request {
            id: REQUEST,
            from: Sender::Agent(MATE),
            turn: Some(TURN),
            kind,
            delegated: true,
            asked_at: Timestamp(60),
        },
    }
}

fn decided(decision: Decision) -> Event {
    Event::RequestDecided {
        request: REQUEST,
        by: Sender::Agent(SlotId::LEAD),
        decision,
        delegated: true,
    }
}

fn turn_ended(outcome: TurnOutcome) -> Event {
    Event::TurnEnded {
        turn: TURN,
        slot: MATE,
        outcome,
        acknowledged: vec![MESSAGE],
        requeued: vec![MessageId(12)],
        usage: Some(usage()),
    }
}

fn protocol_messages() -> Vec<ProtocolMessage> {
    vec![
        ProtocolMessage::IdleNotification {
            reason: IdleReason::Interrupted,
            last_text: Some("so far".to_owned()),
            open_tasks: vec![TASK],
            open_requests: vec![REQUEST],
        },
        ProtocolMessage::PermissionRequest {
            request: REQUEST,
            tool: "Bash".to_owned(),
            description: "run the tests".to_owned(),
            input: "{}".to_owned(),
        },
        ProtocolMessage::PermissionResponse {
            request: REQUEST,
            allowed: false,
            reason: Some("no".to_owned()),
        },
        ProtocolMessage::SandboxPermissionRequest {
            request: REQUEST,
            host: "example.org".to_owned(),
        },
        ProtocolMessage::SandboxPermissionResponse {
            request: REQUEST,
            host: "example.org".to_owned(),
            allow: true,
        },
        ProtocolMessage::ShutdownRequest {
            request: REQUEST,
            slot: MATE,
            reason: Some("done".to_owned()),
        },
        ProtocolMessage::ShutdownApproved { request: REQUEST, slot: MATE },
        ProtocolMessage::ShutdownRejected {
            request: REQUEST,
            slot: MATE,
            reason: "one more thing".to_owned(),
        },
        ProtocolMessage::PlanApprovalRequest {
            request: REQUEST,
            hash: ActionHash::of_text("plan"),
            plan: "plan".to_owned(),
        },
        ProtocolMessage::PlanApprovalResponse {
            request: REQUEST,
            approved: false,
            feedback: Some("shorter".to_owned()),
            mode: Some(PermissionMode::Default),
        },
        ProtocolMessage::TeamPermissionUpdate {
            tool: "Bash".to_owned(),
            rule: "any use".to_owned(),
        },
        ProtocolMessage::ModeSetRequest { mode: PermissionMode::Plan },
        ProtocolMessage::TaskAssignment {
            task: TASK,
            subject: "write".to_owned(),
            description: "the page".to_owned(),
            assigned_by: Sender::User,
        },
    ]
}

fn request_kinds() -> Vec<RequestKind> {
    vec![
        RequestKind::Permission(PermissionAsk {
            call: "call-1".to_owned(),
            tool: "Bash".to_owned(),
            class: ToolClass::Execute,
            action: action(),
            description: "run the tests".to_owned(),
            input: "{}".to_owned(),
            cwd: "/work".to_owned(),
            kin: vec![action()],
            finding: Some(finding()),
            suggestion: Some("Bash(cargo test:*)".parse().unwrap()),
        }),
        RequestKind::Network(NetworkAsk {
            call: "call-1".to_owned(),
            host: "example.org".to_owned(),
            action: action(),
        }),
        RequestKind::Plan(PlanSubmission::new("plan".to_owned())),
        RequestKind::Shutdown(ShutdownHandshake {
            slot: MATE,
            by: Sender::Agent(SlotId::LEAD),
            reason: Some("done".to_owned()),
            stage: ShutdownStage::Member { until: Timestamp(99) },
        }),
        RequestKind::Spawn(Box::new(SpawnProposal { member: spec("writer") })),
        RequestKind::CreateTeam(Box::new(TeamProposal {
            name: "Docs".to_owned(),
            summary: "write it".to_owned(),
            why: "it is much".to_owned(),
            members: vec![ProposedMember {
                name: "writer".to_owned(),
                agent_type: "scripted".to_owned(),
                model: Some("small".to_owned()),
                task: "write".to_owned(),
            }],
        })),
        RequestKind::RaiseBudget(BudgetRaise { cap: amount(), reason: "more".to_owned() }),
        RequestKind::DeleteTeam,
        RequestKind::Question(Question {
            text: "red or blue?".to_owned(),
            options: vec!["red".to_owned(), "blue".to_owned()],
        }),
    ]
}

fn decisions() -> Vec<(&'static str, Decision)> {
    vec![
        (
            "allow",
            Decision::Allow {
                scope: GrantScope::Team,
                rule: Some("Bash(cargo test:*)".parse().unwrap()),
            },
        ),
        ("deny", Decision::Deny { reason: "no".to_owned() }),
        ("approve_plan", Decision::ApprovePlan { mode: Some(PermissionMode::AcceptEdits) }),
        ("return_plan", Decision::ReturnPlan { feedback: "shorter".to_owned() }),
        ("approve_shutdown", Decision::ApproveShutdown),
        ("reject_shutdown", Decision::RejectShutdown { reason: "no".to_owned() }),
        ("force_shutdown", Decision::ForceShutdown),
        ("decline", Decision::Decline { reason: Some("no".to_owned()) }),
        ("answer", Decision::Answer { text: "red".to_owned() }),
    ]
}

fn outcomes() -> Vec<(&'static str, TurnOutcome)> {
    vec![
        ("interrupted", TurnOutcome::Interrupted),
        (
            "unavailable",
            TurnOutcome::Unavailable {
                why: Unavailable::RateLimit,
                until: Some(Timestamp(99)),
                said: None,
            },
        ),
        ("lost", TurnOutcome::Lost),
        ("agent_fault", TurnOutcome::AgentFault { error: "it panicked".to_owned() }),
    ]
}

fn spec(name: &str) -> MemberSpec {
    MemberSpec {
        label: Some("A label".to_owned()),
        model: Some("small".to_owned()),
        color: Some("blue".to_owned()),
        parent_call: Some("call-0".to_owned()),
        parent_conversation: Some(conversation("parent")),
        ..member(name)
    }
}

fn key() -> KeyHash {
    KeyHash { key: "ab".repeat(16), content: "cd".repeat(16) }
}

fn action() -> ActionHash {
    ActionHash::of_text("action")
}

fn amount() -> Amount {
    Amount { tokens: 1_000, micro_usd: 2_000 }
}

fn cap() -> Cap {
    Cap { most: Amount { tokens: 9_000, micro_usd: 8_000 }, per_call: amount() }
}

fn usage() -> Usage {
    Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, reasoning: 5, micro_usd: 6 }
}

fn notes() -> BTreeMap<String, String> {
    BTreeMap::from([("area".to_owned(), "docs".to_owned())])
}
