//! What happened, in a few words for a person; the log keeps the exact ones.

use aion_core::agent::{RemovalReason, TeamHold};
use aion_core::event::{Event, Recorded};
use aion_core::id::SlotId;
use aion_core::message::{Body, ProtocolMessage, Sender};
use aion_core::request::Decision;
use aion_core::task::TaskStatus;
use aion_core::team::Team;
use aion_core::turn::{ToolVerdict, TurnOutcome};

use crate::view::{name_of, recipient_name, sender_name, text_of, what, word};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happening {
    /// The member it is about; none for the team as a whole.
    pub(crate) slot: Option<SlotId>,
    /// Who: a member's name, `user`, `system` or `team`.
    pub(crate) who: String,
    /// What, in one word: for programs that read lines.
    pub(crate) word: &'static str,
    /// Facts, each with its name.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The same as a clause that follows the name.
    pub(crate) clause: String,
    /// How much it matters.
    pub(crate) weight: Weight,
}

/// How much a happening matters to somebody who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// Bookkeeping: only in the log.
    Detail,
    /// Part of the story.
    Step,
    /// Wants attention.
    Alert,
}

/// Tells an event. `team` is the state after it; `before` the state before it, for what is gone.
pub(crate) fn describe(before: &Team, team: &Team, recorded: &Recorded) -> Happening {
    use Weight::{Alert, Detail, Step};
    let name = |slot: SlotId| {
        if team.agent(slot).is_some() { name_of(team, slot) } else { name_of(before, slot) }
    };
    let of = |slot: SlotId, word, facts, clause: String, weight| Happening {
        slot: Some(slot),
        who: name(slot),
        word,
        facts,
        clause,
        weight,
    };
    let by = |sender: Sender, word, facts, clause: String, weight| Happening {
        slot: match sender {
            Sender::Agent(slot) => Some(slot),
            Sender::User | Sender::System => None,
        },
        who: match sender {
            Sender::Agent(slot) => name(slot),
            other => sender_name(team, other),
        },
        word,
        facts,
        clause,
        weight,
    };
    let whole = |word, facts, clause: String, weight| Happening {
        slot: None,
        who: "team".to_owned(),
        word,
        facts,
        clause,
        weight,
    };
    match &recorded.event {
        Event::TeamCreated { name, workspace, .. } => whole(
            "created",
            vec![("name", name.clone()), ("workspace", workspace.clone())],
            format!("{name:?} begins in {workspace}"),
            Detail,
        ),
        Event::TeamRenamed { name } => {
            whole("renamed", vec![("name", name.clone())], format!("is called {name:?}"), Step)
        }
        Event::SettingsChanged { .. } => {
            whole("configured", vec![], "has other settings".to_owned(), Detail)
        }
        Event::TeamHeld { hold } => {
            whole("held", vec![("by", word(hold))], held(*hold).to_owned(), Alert)
        }
        Event::TeamReleased { hold } => {
            whole("released", vec![("by", word(hold))], "goes on".to_owned(), Step)
        }
        Event::TeamOpened { downtime_ms } => whole(
            "opened",
            vec![("downtime_ms", downtime_ms.to_string())],
            "is opened again".to_owned(),
            Step,
        ),
        Event::TeamEnded => whole("ended", vec![], "has ended".to_owned(), Alert),

        Event::AgentSpawned { slot, member, by, .. } => of(
            *slot,
            "spawned",
            vec![("agent", member.agent_type.clone()), ("by", sender_name(team, *by))],
            format!("joins, brought in by {}", sender_name(team, *by)),
            Step,
        ),
        Event::AgentReady { slot, .. } => of(*slot, "ready", vec![], "is ready".to_owned(), Detail),
        Event::AgentFailed { slot, cause, retry_at } => of(
            *slot,
            "failed",
            vec![("cause", cause.clone()), ("restarts", retry_at.is_some().to_string())],
            format!("crashed: {cause}"),
            Alert,
        ),
        Event::AgentRestarting { slot, generation, by } => of(
            *slot,
            "restarting",
            vec![("start", generation.to_string()), ("by", sender_name(team, *by))],
            format!("is started again (start {generation})"),
            Alert,
        ),
        Event::AgentRenamed { slot, name: new, .. } => of(
            *slot,
            "renamed",
            vec![("was", name_of(before, *slot))],
            format!("is the new name of {}: {new}", name_of(before, *slot)),
            Step,
        ),
        Event::AgentHeld { slot, hold } => of(
            *slot,
            "held",
            vec![("by", hold_word(hold))],
            format!("is held ({})", hold_word(hold)),
            Alert,
        ),
        Event::AgentReleased { slot, hold } => {
            of(*slot, "released", vec![("by", hold_word(hold))], "goes on".to_owned(), Step)
        }
        Event::ModeChanged { slot, mode } => of(
            *slot,
            "mode",
            vec![("mode", mode.as_str().to_owned())],
            format!("is in mode {} from here on", mode.as_str()),
            Step,
        ),
        Event::ModelChanged { slot, model } => {
            let model = model.clone().unwrap_or_else(|| "its own choice".to_owned());
            of(*slot, "model", vec![("model", model.clone())], format!("uses {model}"), Step)
        }
        Event::AgentStopping { slot, kill, .. } => {
            let clause = if *kill { "is being ended at once" } else { "finishes and leaves" };
            of(*slot, "stopping", vec![("kill", kill.to_string())], clause.to_owned(), Detail)
        }
        Event::AgentRemoved { slot, reason } => {
            let clause = match reason {
                RemovalReason::ShutdownApproved { .. } => "has left the team",
                RemovalReason::Killed => "was ended",
                RemovalReason::TeamEnded => "leaves with the team",
            };
            of(*slot, "removed", vec![], clause.to_owned(), Step)
        }

        Event::MessageSent { message, .. } => {
            let to = recipient_name(team, message.to);
            let facts = vec![
                ("message", message.id.to_string()),
                ("to", to.clone()),
                ("kind", crate::view::kind_of(message).to_owned()),
                ("text", text_of(message)),
            ];
            let (clause, weight) = match &message.body {
                Body::Text(text) => {
                    let to = if to == "*" { "everybody".to_owned() } else { to };
                    (format!("to {to}: {text}"), Step)
                }
                Body::Protocol(ProtocolMessage::IdleNotification { .. }) => {
                    ("is idle, and the lead is told".to_owned(), Detail)
                }
                Body::Protocol(ProtocolMessage::TaskAssignment { task, subject, .. }) => {
                    (format!("gives {to} task {task}: {subject}"), Step)
                }
                Body::Protocol(protocol) => (format!("{} to {to}", protocol.kind()), Detail),
            };
            by(message.from, "message", facts, clause, weight)
        }
        Event::MessageDelivered { message, slot, step, .. } => of(
            *slot,
            "delivered",
            vec![("message", message.to_string()), ("step", step.to_string())],
            match team.message(*message) {
                Some(read) => format!(
                    "reads {message} from {} in the middle of its turn",
                    sender_name(team, read.from)
                ),
                None => format!("reads {message} in the middle of its turn"),
            },
            // Protocol messages belong to what led to them; text is what a member waits for.
            match team.message(*message).map(|read| &read.body) {
                Some(Body::Text(_)) if *step > 0 => Step,
                Some(Body::Text(_) | Body::Protocol(_)) | None => Detail,
            },
        ),
        Event::MessageReturned { message, slot, .. } => of(
            *slot,
            "returned",
            vec![("message", message.to_string())],
            format!("could not take {message} yet; it is queued again"),
            Detail,
        ),
        Event::MessageSuperseded { message, slot, by } => of(
            *slot,
            "superseded",
            vec![("message", message.to_string()), ("by", by.to_string())],
            format!("need not read {message}: {by} is newer"),
            Detail,
        ),
        Event::MessageDeadLettered { message, slot, reason } => of(
            *slot,
            "dead_letter",
            vec![("message", message.to_string()), ("why", json_word(reason, "why"))],
            format!("will not get {message}"),
            Alert,
        ),

        Event::TurnStarted { turn, slot, batch, offer, .. } => {
            let mut facts = vec![("turn", turn.to_string()), ("mail", batch.len().to_string())];
            if let Some(offer) = offer {
                facts.push(("offer", offer.to_string()));
            }
            let clause = match offer {
                Some(task) => format!("begins {turn}, and is offered task {task}"),
                None => format!("begins {turn} with {} message(s)", batch.len()),
            };
            of(*slot, "working", facts, clause, Detail)
        }
        Event::TurnResumed { turn, slot } => of(
            *slot,
            "resumed",
            vec![("turn", turn.to_string())],
            format!("takes {turn} up again"),
            Step,
        ),
        Event::TurnDetached { turn, slot, .. } => of(
            *slot,
            "detached",
            vec![("turn", turn.to_string())],
            format!("is in {turn}, out of sight"),
            Alert,
        ),
        Event::InterruptRequested { turn, slot, by } => of(
            *slot,
            "interrupting",
            vec![("turn", turn.to_string()), ("by", sender_name(team, *by))],
            format!("is interrupted by {}", sender_name(team, *by)),
            Alert,
        ),
        Event::TurnEnded { turn, slot, outcome, .. } => {
            let (word, clause, weight) = match outcome {
                TurnOutcome::Done { last_text: Some(text) } if !text.trim().is_empty() => {
                    ("idle", format!("says: {text}"), Step)
                }
                TurnOutcome::Done { .. } => ("idle", "has nothing more to do".to_owned(), Detail),
                TurnOutcome::Interrupted => ("interrupted", "was interrupted".to_owned(), Step),
                TurnOutcome::Unavailable { why, said, .. } => (
                    "unavailable",
                    match said {
                        Some(said) => format!("cannot reach its model: {said}"),
                        None => format!("cannot reach its model ({})", crate::view::word(why)),
                    },
                    Alert,
                ),
                TurnOutcome::Lost => {
                    ("lost", "lost its turn; its mail comes again".to_owned(), Alert)
                }
                TurnOutcome::AgentFault { error } => {
                    ("fault", format!("failed in its turn: {error}"), Alert)
                }
            };
            let mut facts = vec![("turn", turn.to_string())];
            match outcome {
                TurnOutcome::Unavailable { said: Some(why), .. }
                | TurnOutcome::AgentFault { error: why } => facts.push(("why", why.clone())),
                TurnOutcome::Unavailable { said: None, .. }
                | TurnOutcome::Done { .. }
                | TurnOutcome::Interrupted
                | TurnOutcome::Lost => {}
            }
            of(*slot, word, facts, clause, weight)
        }

        Event::ToolProposed { slot, tool, description, verdict, .. } => {
            let facts = vec![("tool", tool.clone()), ("does", description.clone())];
            match verdict {
                ToolVerdict::Run => of(*slot, "tool", facts, description.clone(), Step),
                ToolVerdict::Ask { request } => {
                    let clause = format!("asks ({request}): {description}");
                    of(*slot, "tool_asks", facts, clause, Detail)
                }
                ToolVerdict::Refused { reason } => {
                    let mut facts = facts;
                    facts.push(("reason", reason.clone()));
                    let clause = format!("may not: {description} ({reason})");
                    of(*slot, "tool_refused", facts, clause, Alert)
                }
            }
        }
        Event::ToolStarted { slot, call, request, .. } => of(
            *slot,
            "tool_started",
            vec![("call", call.clone()), ("request", request.to_string())],
            format!("goes on: {request} was allowed"),
            Detail,
        ),
        Event::ToolRefused { slot, call, reason, .. } => of(
            *slot,
            "tool_refused",
            vec![("call", call.clone()), ("reason", reason.clone())],
            format!("does not go on: {reason}"),
            Alert,
        ),
        Event::SandboxViolation { slot, call, kind, what, .. } => of(
            *slot,
            "sandbox_violation",
            vec![("call", call.clone()), ("what", what.clone())],
            format!("ran a command that {}: {what}", kind.words()),
            Alert,
        ),
        Event::ToolFinished { slot, call, ok, .. } => of(
            *slot,
            "tool_finished",
            vec![("call", call.clone()), ("ok", ok.to_string())],
            if *ok { "is done with it".to_owned() } else { "sees it fail".to_owned() },
            Detail,
        ),

        Event::TaskCreated { task, subject, owner, blocked_by, by: who, .. } => {
            let mut facts = vec![("task", task.to_string()), ("subject", subject.clone())];
            if let Some(owner) = owner {
                facts.push(("owner", name(*owner)));
            }
            let waits = blocked_by.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let after = if waits.is_empty() { String::new() } else { format!(" (after {waits})") };
            by(*who, "task_created", facts, format!("adds task {task}: {subject}{after}"), Step)
        }
        Event::TaskChanged { task, change, by: who } => {
            let subject = subject_of(team, before, *task);
            let facts = vec![("task", task.to_string()), ("subject", subject.clone())];
            let (word, clause, weight) = match (change.status, change.owner) {
                (Some(TaskStatus::Completed), _) => {
                    ("task_completed", format!("completes task {task}: {subject}"), Step)
                }
                (Some(TaskStatus::Deleted), _) => {
                    ("task_deleted", format!("takes task {task} off the board"), Step)
                }
                (Some(TaskStatus::InProgress), _) => {
                    ("task_claimed", format!("takes task {task}: {subject}"), Step)
                }
                (_, Some(None)) => {
                    ("task_released", format!("gives task {task} free: {subject}"), Step)
                }
                (_, Some(Some(owner))) => (
                    "task_assigned",
                    format!("gives task {task} to {}: {subject}", name(owner)),
                    Detail,
                ),
                (Some(TaskStatus::Pending) | None, None) => {
                    ("task_changed", format!("changes task {task}: {subject}"), Detail)
                }
            };
            by(*who, word, facts, clause, weight)
        }

        Event::RequestOpened { request } => by(
            request.from,
            if request.delegated { "asks" } else { "needs_you" },
            vec![
                (request.kind.name(), request.id.to_string()),
                ("what", what(team, &request.kind)),
            ],
            format!(
                "asks ({} {}): {}",
                request.kind.name().replace('_', " "),
                request.id,
                what(team, &request.kind)
            ),
            if request.delegated { Step } else { Alert },
        ),
        Event::RequestDecided { request, by: who, decision, .. } => by(
            *who,
            "decides",
            vec![("request", request.to_string()), ("decision", json_word(decision, "decision"))],
            format!("decides {request}: {}", decided(decision)),
            Step,
        ),
        Event::RequestEscalated { request } => whole(
            "escalated",
            vec![("request", request.to_string())],
            format!("got no answer to {request}: the person is asked"),
            Alert,
        ),
        Event::RequestOrphaned { request } => whole(
            "orphaned",
            vec![("request", request.to_string())],
            format!("keeps {request}, although who asked is gone"),
            Detail,
        ),
        Event::RequestWithdrawn { request, .. } => whole(
            "withdrawn",
            vec![("request", request.to_string())],
            format!("closes {request} without a decision"),
            Detail,
        ),
        Event::TeamLinked { request, team } => whole(
            "linked",
            vec![("request", request.to_string()), ("team", team.to_string())],
            format!("has become {team}"),
            Step,
        ),
        Event::GrantAdded { grant } => whole(
            "granted",
            vec![("grant", grant.id.to_string())],
            format!("remembers the permission {}", grant.id),
            Detail,
        ),
        Event::GrantRevoked { grant } => whole(
            "revoked",
            vec![("grant", grant.to_string())],
            format!("takes the permission {grant} back"),
            Step,
        ),
        Event::DelegationChanged { .. } => {
            whole("delegated", vec![], "has another delegation".to_owned(), Detail)
        }

        Event::CallReserved { slot, .. } => {
            of(*slot, "reserved", vec![], "may make another model call".to_owned(), Detail)
        }
        Event::UsageRecorded { slot, usage } => of(
            *slot,
            "usage",
            vec![("input", usage.input.to_string()), ("output", usage.output.to_string())],
            format!("used {} tokens", usage.amount().tokens),
            Detail,
        ),
        Event::CapChanged { .. } => whole("cap", vec![], "has another budget".to_owned(), Step),
        Event::KeyUsed { .. } => whole("key", vec![], "notes a key".to_owned(), Detail),
        Event::FactObserved { fact, conflict } => of(
            fact.slot(),
            "observed",
            conflict.iter().map(|rule| ("conflict", rule.clone())).collect(),
            "did something by itself".to_owned(),
            Detail,
        ),
    }
}

fn held(hold: TeamHold) -> &'static str {
    match hold {
        TeamHold::User => "is paused",
        TeamHold::LeadDown => "is held: its lead cannot be started",
        TeamHold::Downtime => "waits for one \"resume\" after a long pause",
        TeamHold::Stopping => "is asked to stop",
    }
}

fn hold_word(hold: &aion_core::agent::Hold) -> String {
    json_word(hold, "hold")
}

/// The tag of a value that is an object with one.
fn json_word(value: &impl serde::Serialize, tag: &str) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.get(tag).or(Some(&value)).and_then(serde_json::Value::as_str).unwrap_or("").to_owned()
}

fn subject_of(team: &Team, before: &Team, id: aion_core::id::TaskId) -> String {
    let of = |team: &Team| {
        let board = team.board();
        board
            .open()
            .get(&id)
            .map(|task| task.subject().to_owned())
            .or_else(|| board.done().get(&id).map(|task| task.subject.clone()))
    };
    of(team).or_else(|| of(before)).unwrap_or_default()
}

/// A decision as the end of a sentence.
fn decided(decision: &Decision) -> String {
    use aion_core::permission::GrantScope;
    match decision {
        Decision::Allow { scope, rule: Some(rule) } => match scope {
            GrantScope::Team => format!("yes, and {rule} for the whole team"),
            GrantScope::Once | GrantScope::Action | GrantScope::Member => {
                format!("yes, and {rule} for it")
            }
        },
        Decision::Allow { scope, rule: None } => match scope {
            GrantScope::Once => "yes, once",
            GrantScope::Action => "yes, whenever it does this",
            GrantScope::Member => "yes, whenever it uses it",
            GrantScope::Team => "yes, for the whole team",
        }
        .to_owned(),
        Decision::Deny { reason } if reason.is_empty() => "no".to_owned(),
        Decision::Deny { reason } | Decision::Decline { reason: Some(reason) } => {
            format!("no: {reason}")
        }
        Decision::ApprovePlan { .. } => "the plan is good".to_owned(),
        Decision::ReturnPlan { feedback } => format!("the plan has to change: {feedback}"),
        Decision::ApproveShutdown => "it leaves".to_owned(),
        Decision::RejectShutdown { reason } => format!("it stays: {reason}"),
        Decision::ForceShutdown => "it is ended".to_owned(),
        Decision::Consent => "yes".to_owned(),
        Decision::Decline { reason: None } => "no".to_owned(),
        Decision::Answer { text } => text.clone(),
    }
}

/// Tells a log event by event.
#[derive(Debug)]
pub(crate) struct Story {
    folded: crate::history::Folded,
}

impl Story {
    /// From a state on.
    pub(crate) fn new(folded: crate::history::Folded) -> Self {
        Self { folded }
    }

    /// The state after what was told so far.
    pub(crate) fn team(&self) -> &Team {
        &self.folded.team
    }

    /// The last event that was told.
    pub(crate) fn seq(&self) -> aion_core::id::Seq {
        self.folded.seq
    }

    /// Tells the next event.
    pub(crate) fn tell(&mut self, recorded: &Recorded) -> Happening {
        let takes_away = matches!(
            recorded.event,
            Event::AgentRemoved { .. }
                | Event::AgentRenamed { .. }
                | Event::TaskChanged { .. }
                | Event::TeamEnded
        );
        let before = takes_away.then(|| self.folded.team.clone());
        self.folded.apply(recorded);
        let team = &self.folded.team;
        describe(before.as_ref().unwrap_or(team), team, recorded)
    }
}
