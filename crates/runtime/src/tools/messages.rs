//! Tools to send and read mail.

use aion_agent::host::ToolOutput;
use aion_core::command::{Command, SendMessage};
use aion_core::id::{MessageId, RequestId, SlotId, TurnId};
use aion_core::message::{Recipient, Urgency};
use aion_core::prompt;
use aion_core::team::Team;
use serde::Deserialize;

use super::call::{Address, Answer, Call, Failure, done, told};
use super::input::Id;
use super::registry::{Tool, tool};
use super::requests;
use super::schema::{choice, text};

pub(super) fn tools() -> Vec<Tool> {
    let to = || {
        text(
            "to",
            "Whom: a member's name or slot id, \"team-lead\", \"user\" for the person, or \"*\" for every other member.",
        )
        .required()
    };
    let summary = || text("summary", "What it is about, in 5 to 10 words.");
    vec![
        tool!(
            Members,
            "team_send_message",
            "Send a message to a member of your team, to the person, or to everybody. Nobody sees what you write outside of messages. The message is stored before this answers; an idle recipient starts to work on it, a working one reads it between two steps.",
            [
                to(),
                text("message", "The message.").required(),
                summary(),
                choice(
                    "urgency",
                    "\"wake\" (if not said): start or tell the recipient now. \"queue\": with its next turn. \"interrupt\": end its running turn first; only the lead may.",
                    &["queue", "wake", "interrupt"],
                ),
            ],
            send
        ),
        tool!(
            Members,
            "SendMessage",
            "Send a message to a member of your team, to the person, or to everybody. The same as team_send_message.",
            [to(), text("message", "The message.").required(), summary()],
            send
        ),
        tool!(
            Members,
            "team_read_messages",
            "Read the mail that arrived since your turn began. Without new mail it shows again what this turn was given.",
            [],
            read
        ),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    to: String,
    message: Message,
    #[serde(default)]
    summary: Option<String>,
    #[serde(default)]
    urgency: Urgency,
}

/// Text, or one of the typed messages that other clients send through the same tool.
#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Text(String),
    Typed(Typed),
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Typed {
    ShutdownRequest {
        #[serde(default)]
        reason: Option<String>,
    },
    ShutdownResponse {
        request_id: Id<RequestId>,
        approve: bool,
        #[serde(default)]
        reason: Option<String>,
    },
    PlanApprovalResponse {
        request_id: Id<RequestId>,
        approve: bool,
        #[serde(default)]
        feedback: Option<String>,
    },
}

async fn send(call: Call<'_>, input: Send) -> Answer {
    let text = match input.message {
        Message::Text(text) => text,
        Message::Typed(Typed::ShutdownRequest { reason }) => {
            return requests::shut_down(call, Some(input.to), reason).await;
        }
        Message::Typed(Typed::ShutdownResponse { request_id, approve, reason }) => {
            return requests::answer_shutdown(call, request_id.0, approve, reason).await;
        }
        Message::Typed(Typed::PlanApprovalResponse { request_id, approve, feedback }) => {
            return requests::answer_plan(call, request_id.0, approve, feedback, None).await;
        }
    };
    let (to, answer) = match call.address(&input.to).await? {
        Address::Member(SlotId::LEAD, name) => (Recipient::Lead, format!("Message sent to {name}")),
        Address::Member(slot, name) => (Recipient::Agent(slot), format!("Message sent to {name}")),
        Address::User => (Recipient::User, "Message sent to user".to_owned()),
        Address::Everyone(others) => {
            (Recipient::Everyone, format!("Message broadcast to {others} teammate(s)"))
        }
    };
    let (summary, urgency) = (input.summary, input.urgency);
    let message = SendMessage { to, text, summary, urgency, files: Vec::new(), key: None };
    call.submit(Command::SendMessage(Box::new(message))).await?;
    Ok(done(answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn read(call: Call<'_>, _: Nothing) -> Answer {
    let slot = call.own_slot()?;
    let known = call.context.turn;
    let turn = call
        .query(move |team| known.or_else(|| Some(team.agent(slot)?.turn()?.id())))
        .await?
        .ok_or_else(|| Failure::Say("mail is read in a turn, and you are in none".to_owned()))?;
    let before = call.query(move |team| mail_of(team, slot, turn)).await?;
    let take = Command::TakeMail { turn, step: call.context.step };
    let (caller, credential) = (call.context.caller, call.context.credential.clone());
    call.handle.submit(caller, credential, take).await?;
    let ids = std::sync::Arc::clone(&call.handle.shared().house.ids);
    let (rendered, new) = call
        .query(move |team| {
            let mail = mail_of(team, slot, turn);
            let new: Vec<_> = mail.iter().copied().filter(|id| !before.contains(id)).collect();
            let shown = if new.is_empty() { &mail } else { &new };
            let rendered = (!shown.is_empty())
                .then(|| prompt::render_mail(team, slot, shown, &mut || ids.nonce()));
            (rendered, new.len())
        })
        .await?;
    Ok(match (rendered, new) {
        (None, _) => told("No messages."),
        (Some(mail), 0) => told(format!("No new messages. This turn was given:\n\n{mail}")),
        (Some(mail), new) => {
            ToolOutput { changed: true, ..told(format!("{new} new message(s):\n\n{mail}")) }
        }
    })
}

fn mail_of(team: &Team, slot: SlotId, turn: TurnId) -> Vec<MessageId> {
    team.agent(slot)
        .and_then(|agent| agent.turn())
        .filter(|live| live.id() == turn)
        .map(|live| live.mail().keys().copied().collect())
        .unwrap_or_default()
}
