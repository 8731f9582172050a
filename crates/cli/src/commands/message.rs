//! `aion message`: writes to members and reads what is written; what a message leads to is the
//! team's business.

use std::collections::VecDeque;
use std::io::Read;

use aion_api::{
    AgentListResponse, DeliveryState, Exit, MessageAcceptedResponse, MessageListResponse,
    MessageParams, MessageRow, RedeliverParams, UrgencyParam,
};
use aion_core::event::Event;
use aion_core::id::{InvalidId, MessageId};

use crate::args::{ListMessages, Message, OfTeam, Redeliver, SendMessage, Urgency};
use crate::client::{Heard, Listening, connect, find_member, find_team, folded};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::{clean_line, clean_text};
use crate::view::{event_line, recipient_name, sender_name, text_of};

/// The most that is read from standard input.
const MOST: u64 = 1024 * 1024;

pub(super) async fn run(command: Message, json: bool) -> Outcome {
    match command {
        Message::Send(args) => send(args, json).await,
        Message::Ls(args) => list(&args, json).await,
        Message::Redeliver(args) => redeliver(&args, json).await,
        Message::Tail(of) => tail(&of, json).await,
    }
}

async fn send(args: SendMessage, json: bool) -> Outcome {
    let text = if args.text == "-" { from_stdin()? } else { args.text };
    if text.trim().is_empty() {
        return Err(Failure::usage("the message is empty"));
    }
    let client = connect(&args.of.reach).await?;
    let team = find_team(&client, args.of.team.as_deref()).await?;
    let member = find_member(&client, &team.id, &args.to).await?;
    let urgency = match args.urgency {
        Urgency::Queue => UrgencyParam::Queue,
        Urgency::Wake => UrgencyParam::Wake,
        Urgency::Interrupt => UrgencyParam::Interrupt,
    };
    let path = format!("/api/teams/{}/agents/{}/messages", team.id, member.slot_id);
    let accepted: MessageAcceptedResponse =
        client.persist(&path, &MessageParams { text, files: Vec::new(), urgency }).await?;
    if json {
        output::json(&accepted)?;
    } else {
        let (name, team) = (&member.agent_name, clean_line(&team.name, 60));
        output::line(&format!("{} to {name} of {team} is accepted", accepted.message_id))?;
    }
    Ok(Exit::Success)
}

async fn redeliver(args: &Redeliver, json: bool) -> Outcome {
    let client = connect(&args.of.reach).await?;
    let team = find_team(&client, args.of.team.as_deref()).await?;
    let slot_id = match &args.to {
        Some(to) => Some(find_member(&client, &team.id, to).await?.slot_id),
        None => None,
    };
    let no_id = |error: InvalidId| Failure::usage(error.to_string());
    let message: MessageId = args.message.parse().map_err(no_id)?;
    let path = format!("/api/teams/{}/messages/{message}/redeliver", team.id);
    let accepted: MessageAcceptedResponse =
        client.persist(&path, &RedeliverParams { slot_id }).await?;
    if json {
        output::json(&accepted)?;
    } else {
        output::line(&format!("{message} is sent again, as {}", accepted.message_id))?;
    }
    Ok(Exit::Success)
}

async fn list(args: &ListMessages, json: bool) -> Outcome {
    let client = connect(&args.of.reach).await?;
    let team = find_team(&client, args.of.team.as_deref()).await?;
    let mut last: VecDeque<MessageRow> = VecDeque::new();
    let mut after = 0;
    loop {
        let path = format!("/api/teams/{}/messages?after={after}&limit=500", team.id);
        let page: MessageListResponse = client.get(&path).await?;
        for row in page.messages {
            if last.len() == args.limit {
                last.pop_front();
            }
            if args.limit > 0 {
                last.push_back(row);
            }
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    if json {
        output::json(&last)?;
        return Ok(Exit::Success);
    }
    let list: AgentListResponse = client.get(&format!("/api/teams/{}/agents", team.id)).await?;
    let name = |slot: &str| {
        let member = list.agents.iter().find(|agent| format!("s{}", agent.row.slot_id) == slot);
        member.map_or_else(|| slot.to_owned(), |agent| agent.row.agent_name.clone())
    };
    let rows: Vec<Vec<String>> = last
        .iter()
        .map(|row| {
            let to: Vec<String> = row.to.iter().map(|slot| name(&format!("s{slot}"))).collect();
            let to = if to.is_empty() { "user".to_owned() } else { to.join(", ") };
            vec![
                row.message_id.clone(),
                name(&row.from),
                clean_line(&to, 40),
                state(row).to_owned(),
                clean_line(&row.text, 100),
            ]
        })
        .collect();
    if rows.is_empty() {
        output::line("there are no messages yet")?;
    } else {
        output::table(&["ID", "FROM", "TO", "STATE", "TEXT"], &rows)?;
    }
    Ok(Exit::Success)
}

/// How far a message is, in a word: what still needs somebody comes first.
fn state(row: &MessageRow) -> &'static str {
    let is = |state| row.deliveries.iter().any(|delivery| delivery.state == state);
    if is(DeliveryState::Dead) {
        "dead"
    } else if is(DeliveryState::Queued) {
        "waits"
    } else if is(DeliveryState::Delivered) {
        "read"
    } else {
        "done"
    }
}

async fn tail(of: &OfTeam, json: bool) -> Outcome {
    let client = connect(&of.reach).await?;
    let team = find_team(&client, of.team.as_deref()).await?;
    let mut state = folded(&client, &team.id).await?;
    let mut listening = Listening::new(client, team.id.clone(), state.seq, false);
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let heard = tokio::select! {
            _ = &mut interrupted => return Ok(Exit::Interrupted),
            heard = listening.next() => heard,
        };
        match heard {
            Heard::Event(recorded) => {
                state.apply(&recorded);
                match &recorded.event {
                    Event::MessageSent { .. } if json => {
                        output::json(&event_line(&team.id, &recorded))?;
                    }
                    Event::MessageSent { message, .. } => {
                        let from = sender_name(&state.team, message.from);
                        let to = recipient_name(&state.team, message.to);
                        output::line(&format!("{from} → {to}: {}", clean_text(&text_of(message))))?;
                    }
                    Event::TeamEnded => return Ok(Exit::Success),
                    _ => {}
                }
            }
            Heard::Piece(_) => {}
            Heard::Note(note) if json => output::json(&serde_json::json!({ "note": note }))?,
            Heard::Note(note) => output::line(&note)?,
            Heard::Over(failure) => return Err(failure),
        }
    }
}

fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(MOST + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| Failure::io("read the message", &error))?;
    if bytes as u64 > MOST {
        return Err(Failure::usage("a message holds 1 MiB at most"));
    }
    Ok(text)
}
