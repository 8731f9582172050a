//! `aion message`: writes to members and reads what is written; what a message leads to is the
//! team's business.

use std::io::Read;

use aion_api::{Exit, MessageAcceptedResponse, MessageParams, UrgencyParam};

use crate::args::{Message, SendMessage, Urgency};
use crate::client::{connect, find_member, find_team};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::clean_line;

/// The most that is read from standard input.
const MOST: u64 = 1024 * 1024;

pub(super) async fn run(command: Message, json: bool) -> Outcome {
    match command {
        Message::Send(args) => send(args, json).await,
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
        client.post(&path, &MessageParams { text, urgency }).await?;
    if json {
        output::json(&accepted)?;
    } else {
        let (name, team) = (&member.agent_name, clean_line(&team.name, 60));
        output::line(&format!("{} to {name} of {team} is accepted", accepted.message_id))?;
    }
    Ok(Exit::Success)
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
