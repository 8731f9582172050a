//! What a model is shown: role prompts, and mail inside a fence that no body can forge.
//!
//! Every message stands in a fence whose tag carries a nonce drawn after the body is known, and
//! look-alike tags inside the body are escaped. Text inside a fence is data; only the fence says
//! who speaks. Writing to a string cannot fail, so those results are not looked at. Templates are plain text with `{{name}}` replacement.

mod project;
mod standing;

use std::collections::BTreeMap;
use std::fmt::Write;

use unicode_security::confusable_detection::skeleton;

use crate::agent::{Agent, Role};
use crate::id::{MessageId, SlotId, TurnId};
use crate::message::{Body, Envelope, IdleReason, ProtocolMessage, Recipient, Sender};
use crate::mode::PermissionMode;
use crate::team::Team;
use crate::text::{is_unseen, shown};

pub use self::project::{Instructions, instructions};
pub use self::standing::standing;

/// The lead's role prompt, unless an override is given.
pub const LEAD: &str = include_str!("prompt/lead.md");
/// A teammate's role prompt, unless an override is given.
pub const TEAMMATE: &str = include_str!("prompt/teammate.md");
/// The role prompt of a conversation's agent, unless an override is given.
pub const SOLO: &str = include_str!("prompt/solo.md");

const TAG: &str = "teammate-message";

/// Replaces each `{{name}}` by its value. A name without a value stays, so that it is seen.
#[must_use]
pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let known = from.find("}}").and_then(|end| {
            let name = from[2..end].trim();
            values.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value, end + 2))
        });
        let (value, end) = known.unwrap_or(("{{", 2));
        out.push_str(value);
        rest = &from[end..];
    }
    out.push_str(rest);
    out
}

/// The members of a team as its role prompts name them, written once for all prompts of a moment.
#[derive(Clone, Debug)]
pub struct Roster {
    lines: String,
    /// Where a member's own prompt says that this line is about itself.
    names_end: BTreeMap<SlotId, usize>,
}

impl Roster {
    /// The members as they are.
    pub fn of(team: &Team) -> Self {
        let mut lines = String::new();
        let mut names_end = BTreeMap::new();
        for agent in team.agents() {
            let line_end = if lines.is_empty() { "" } else { "\n" };
            lines.extend([line_end, "- ", agent.name().as_str()]);
            names_end.insert(agent.slot(), lines.len());
            let role = match agent.role() {
                Role::Lead => "lead",
                Role::Teammate => "teammate",
                Role::Solo => "agent",
            };
            lines.extend([": ", role, ", ", &in_line(agent.agent_type())]);
        }
        Self { lines, names_end }
    }

    /// The lines as one of the members reads them.
    fn seen_by(&self, slot: SlotId) -> String {
        let (before, after) = self.lines.split_at(self.names_end.get(&slot).copied().unwrap_or(0));
        let you = if before.is_empty() { "" } else { " (you)" };
        [before, you, after].concat()
    }
}

/// The system prompt of a member: its role, the rules, and who else is there.
#[must_use]
pub fn role_prompt(team: &Team, roster: &Roster, slot: SlotId) -> String {
    let template = match team.agent(slot).map(Agent::role) {
        Some(Role::Lead) => LEAD,
        Some(Role::Solo) => SOLO,
        Some(Role::Teammate) | None => TEAMMATE,
    };
    role_prompt_from(template, team, roster, slot)
}

/// The same from another template.
#[must_use]
pub fn role_prompt_from(template: &str, team: &Team, roster: &Roster, slot: SlotId) -> String {
    let Some(agent) = team.agent(slot) else {
        return String::new();
    };
    let mode = match agent.mode() {
        PermissionMode::Plan => {
            "You are in plan mode: read as much as you need, change nothing, and submit a plan with team_submit_plan. Begin the work only after the plan is approved."
        }
        PermissionMode::DontAsk => {
            "Whatever would need a permission is refused; work with what is allowed."
        }
        PermissionMode::Default => {
            "Changes to files and commands are asked for; the person may refuse one."
        }
        PermissionMode::AcceptEdits => {
            "You may edit files inside the workspace; commands are asked for."
        }
        PermissionMode::BypassPermissions => "Your tool calls run without asking.",
    };
    fill(
        template,
        &[
            ("name", agent.name().as_str()),
            ("team", &in_line(team.name())),
            ("workspace", &in_line(team.workspace())),
            ("members", &roster.seen_by(slot)),
            ("mode", mode),
        ],
    )
}

/// The opening of a turn: its mail, and the task it is offered.
#[must_use]
pub fn opening(
    team: &Team,
    slot: SlotId,
    turn: TurnId,
    nonce: &mut dyn FnMut() -> String,
) -> String {
    let Some(live) = team.agent(slot).and_then(Agent::turn).filter(|t| t.id() == turn) else {
        return String::new();
    };
    let batch: Vec<MessageId> =
        live.mail().iter().filter(|(_, step)| **step == 0).map(|(id, _)| *id).collect();
    let mut parts = Vec::new();
    if !batch.is_empty() {
        parts.push(render_mail(team, slot, &batch, nonce));
    }
    if let Some(task) = live.offer().and_then(|id| team.board().open().get(&id)) {
        let whose = match task.owner() {
            Some(_) => format!("Task {} is yours and ready.", task.id()),
            None => format!(
                "Task {} is ready and nobody has it. If it fits you, take it with team_task_claim; if not, end your turn.",
                task.id()
            ),
        };
        let text = format!("{}\n\n{}", task.subject(), task.description());
        parts.push(format!("{whose}\n{}", fence("task", "", &text, nonce)));
    }
    parts.join("\n\n")
}

/// Mail as a member reads it, oldest first.
#[must_use]
pub fn render_mail(
    team: &Team,
    slot: SlotId,
    messages: &[MessageId],
    nonce: &mut dyn FnMut() -> String,
) -> String {
    let rendered: Vec<String> = messages
        .iter()
        .filter_map(|id| team.message(*id))
        .map(|message| render(team, slot, message, nonce))
        .collect();
    rendered.join("\n\n")
}

fn render(
    team: &Team,
    slot: SlotId,
    message: &Envelope,
    nonce: &mut dyn FnMut() -> String,
) -> String {
    let from = speaker(team, message.from);
    let mut attributes = format!(" from=\"{from}\" id=\"{}\"", message.id);
    if message.from == Sender::User {
        attributes.push_str(" provenance=\"human\"");
    }
    if message.to == Recipient::Everyone {
        attributes.push_str(" to=\"everyone\"");
    }
    if let Body::Protocol(protocol) = &message.body {
        let _ = write!(attributes, " kind=\"{}\"", protocol.kind());
    }
    let entry = team.agent(slot).and_then(|a| a.mailbox().entries().get(&message.id));
    if let Some(entry) = entry.filter(|e| e.redelivered()) {
        let _ = write!(attributes, " redelivered=\"attempt {}\"", entry.attempts() + 1);
    }
    let mut text = match &message.body {
        Body::Text(text) => text.clone(),
        Body::Protocol(protocol) => protocol_text(team, protocol),
    };
    for file in &message.files {
        let _ =
            write!(text, "\n[file {:?}, {} bytes, at {:?}]", file.name, file.bytes, file.place());
    }
    fence(TAG, &attributes, &text, nonce)
}

/// Puts a text into a fence that its content cannot close.
fn fence(tag: &str, attributes: &str, text: &str, nonce: &mut dyn FnMut() -> String) -> String {
    let body = escape_tags(text);
    let mut mark = nonce();
    // A drawn nonce that occurs in the body is as good as impossible, and still not accepted.
    for _ in 0..8 {
        if !body.contains(&mark) {
            break;
        }
        mark = nonce();
    }
    format!("<{tag}-{mark}{attributes}>\n{body}\n</{tag}-{mark}>")
}

/// A text of somebody else as it may stand inside what a model reads: nothing in it looks like a
/// fence, and nothing in it is hidden.
#[must_use]
pub fn quote(text: &str) -> String {
    escape_tags(text)
}

/// The same as a part of one line.
fn in_line(text: &str) -> String {
    quote(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What a tool returned, as a model reads it: nothing in it looks like one of our fences, and nothing
/// in it is hidden. Other tags stay as they are: files are full of them.
#[must_use]
pub fn tool_output(text: &str) -> String {
    escape(text, &FENCES)
}

/// Escapes what looks like one of our tags, whatever its case and whatever is hidden in it.
fn escape_tags(text: &str) -> String {
    escape(text, &TAGS)
}

/// Tags that say who speaks.
const FENCES: [&str; 5] = [
    "teammate-message",
    "agent-message",
    "system-reminder",
    "cross-session-message",
    "project-instructions",
];
/// Every tag that a model may take for one of its house.
const TAGS: [&str; 13] = [
    "project-instructions",
    "teammate-message",
    "agent-message",
    "system-reminder",
    "cross-session-message",
    "task-",
    "system",
    "human",
    "assistant",
    "function_",
    "tool_",
    "invoke",
    "antml",
];

fn escape(text: &str, names: &[&str]) -> String {
    let shown = shown(text);
    let mut out = String::with_capacity(shown.len());
    let mut rest = shown.as_str();
    let mut plain_names = None;
    while let Some(at) = rest.find(['<', '＜', '﹤', '‹', '〈', '⟨']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (bracket, after) = from.split_at(from.chars().next().map_or(0, char::len_utf8));
        // The text before what was hidden in it was written out.
        let names =
            plain_names.get_or_insert_with(|| names.iter().copied().map(plain).collect::<Vec<_>>());
        out.push_str(if looks_like_tag(after, names) { "&lt;" } else { bracket });
        rest = after;
    }
    out.push_str(rest);
    out
}

fn looks_like_tag(rest: &str, names: &[String]) -> bool {
    let mut seen = String::new();
    let mut chars = rest.chars().take(96).peekable();
    while let Some(c) = chars.next() {
        if c == '\\' && chars.peek() == Some(&'u') {
            // Something hidden, written out.
            chars.by_ref().find(|c| *c == '}');
        } else if !c.is_whitespace() && !is_unseen(c) && !matches!(c, '/' | '／') {
            seen.push(c);
        }
    }
    // A text that was shortened may end in the middle of one.
    let cut = plain(seen.split('…').next().unwrap_or_default());
    let seen = plain(&seen);
    names.iter().any(|name| seen.starts_with(name) || (cut.len() >= 4 && name.starts_with(&cut)))
}

/// A text as it looks, whatever script it is written in.
fn plain(text: &str) -> String {
    let narrow: String = text
        .chars()
        .map(|c| match c {
            // The full-width forms of ASCII.
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            other => other,
        })
        .collect();
    skeleton(&narrow.to_lowercase()).collect()
}

fn speaker(team: &Team, sender: Sender) -> String {
    match sender {
        Sender::User => "user".to_owned(),
        Sender::System => "system".to_owned(),
        Sender::Agent(slot) => team
            .agent(slot)
            .map_or_else(|| format!("former member {slot}"), |a| a.name().to_string()),
    }
}

fn slot_name(team: &Team, slot: SlotId) -> String {
    speaker(team, Sender::Agent(slot))
}

fn protocol_text(team: &Team, message: &ProtocolMessage) -> String {
    match message {
        ProtocolMessage::IdleNotification { reason, last_text, open_tasks, open_requests } => {
            let mut text = match reason {
                IdleReason::Available => "The member ended its turn and is free.",
                IdleReason::Interrupted => "The member was interrupted.",
                IdleReason::Failed => "The member's turn failed.",
            }
            .to_owned();
            if let Some(last) = last_text {
                let _ = write!(text, "\nIts last words: {last}");
            }
            if !open_tasks.is_empty() {
                let _ = write!(text, "\nTasks it still holds: {}", list(open_tasks));
            }
            if !open_requests.is_empty() {
                let _ = write!(text, "\nIts requests that wait: {}", list(open_requests));
            }
            text
        }
        ProtocolMessage::PermissionRequest { request, tool, description, input } => format!(
            "The member asks whether it may run {tool}: {description}\nInput: {input}\nDecide with team_decide_permission and request_id \"{request}\"."
        ),
        ProtocolMessage::PermissionResponse { request, allowed, reason } => {
            let verdict = if *allowed {
                "was allowed; you may make the same call again"
            } else {
                "was denied"
            };
            let why = reason.as_deref().map_or(String::new(), |r| format!(": {r}"));
            format!("Your permission request {request} {verdict}{why}.")
        }
        ProtocolMessage::SandboxPermissionRequest { request, host } => format!(
            "A command of the member wants to reach {host}. Decide with team_decide_permission and request_id \"{request}\"."
        ),
        ProtocolMessage::SandboxPermissionResponse { host, allow, .. } => {
            format!("Reaching {host} was {}.", if *allow { "allowed" } else { "denied" })
        }
        ProtocolMessage::ShutdownRequest { request, slot, reason } => {
            let why = reason.as_deref().map_or(String::new(), |r| format!(" Reason: {r}"));
            format!(
                "{} is asked to leave the team.{why}\nAnswer with team_respond_shutdown and request_id \"{request}\". Reject it with a reason if work is unfinished.",
                slot_name(team, *slot)
            )
        }
        ProtocolMessage::ShutdownApproved { slot, .. } => {
            format!("{} leaves the team.", slot_name(team, *slot))
        }
        ProtocolMessage::ShutdownRejected { slot, reason, .. } => {
            format!("{} stays: {reason}", slot_name(team, *slot))
        }
        ProtocolMessage::PlanApprovalRequest { request, plan, .. } => format!(
            "The member submits this plan. Decide with team_decide_plan and request_id \"{request}\"; send it back with feedback if it is not good yet.\n\n{plan}"
        ),
        ProtocolMessage::PlanApprovalResponse { approved: true, mode, .. } => {
            let mode = mode
                .map_or(String::new(), |m| format!(" Your mode is {} from here on.", m.as_str()));
            format!("Your plan is approved. Begin.{mode}")
        }
        ProtocolMessage::PlanApprovalResponse { approved: false, feedback, .. } => format!(
            "Your plan is returned. Change it and submit it again.\nFeedback: {}",
            feedback.as_deref().unwrap_or("none given")
        ),
        ProtocolMessage::TeamPermissionUpdate { rule, .. } => rule.clone(),
        ProtocolMessage::ModeSetRequest { mode } => {
            format!("Your permission mode is {} from here on.", mode.as_str())
        }
        ProtocolMessage::TaskAssignment { task, subject, description, assigned_by } => format!(
            "Task {task} is given to you by {}: {subject}\n\n{description}",
            speaker(team, *assigned_by)
        ),
    }
}

fn list<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
