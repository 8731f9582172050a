//! `aion attach`: follows members as plain lines, and sends them what is typed; leaving changes
//! nothing for them.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use aion_api::{
    AgentRow, Exit, MessageAcceptedResponse, MessageParams, StreamFrame, TeamRow, UrgencyParam,
};
use aion_core::event::{Event, Recorded};
use aion_core::id::{Seq, SlotId};
use aion_core::message::{Recipient, Sender};
use serde_json::json;

use crate::answer::Typed;
use crate::args::Attach;
use crate::client::{Client, Heard, Listening, connect, find_member, find_team, folded};
use crate::describe::{Story, Weight};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::{Paint, clean_line, clean_text};
use crate::view::{event_line, name_of, recipient_name, text_of};

pub(super) async fn run(args: Attach, json: bool) -> Outcome {
    let client = connect(&args.reach).await?;
    let (team, member) = match args.whom.split_once('/') {
        Some((team, member)) => (team, Some(member).filter(|member| !member.is_empty())),
        None => (args.whom.as_str(), None),
    };
    let team = find_team(&client, Some(team)).await?;
    let member = match member {
        Some(wanted) => Some(find_member(&client, &team.id, wanted).await?),
        None => None,
    };
    let from = folded(&client, &team.id).await?;
    let seq = from.seq;
    let listening = Listening::new(client.clone(), team.id.clone(), from.seq, true);
    let lead = find_member(&client, &team.id, "lead").await?;
    let mut attached = Attached {
        to: member.clone().unwrap_or(lead),
        member,
        client,
        team,
        story: Story::new(from),
        pieces: Pieces::default(),
        paint: Paint::of_stdout(),
        json,
    };
    attached.greet(seq)?;
    attached.follow(listening).await
}

struct Attached {
    client: Client,
    team: TeamRow,
    /// Who is followed; all without one.
    member: Option<AgentRow>,
    /// Who gets what is typed.
    to: AgentRow,
    story: Story,
    pieces: Pieces,
    paint: Paint,
    json: bool,
}

impl Attached {
    fn greet(&self, seq: Seq) -> Result<(), Failure> {
        if self.json {
            // Whatever comes after this event is told: a program need not guess what it missed.
            return output::json(&json!({
                "type": "following", "team_id": self.team.id, "seq": seq.0,
            }));
        }
        let team = clean_line(&self.team.name, 60);
        let who = match &self.member {
            Some(member) => format!("{} of {team}", member.agent_name),
            None => format!("{team}, all {} members", self.team.members),
        };
        let typed = if std::io::stdin().is_terminal() {
            format!("; what you type goes to {}, Ctrl+C leaves", self.to.agent_name)
        } else {
            String::new()
        };
        output::line(&self.paint.dim(&format!("following {who}{typed}")))
    }

    async fn follow(&mut self, mut listening: Listening) -> Outcome {
        let mut typed = Some(Typed::read());
        let interrupted = tokio::signal::ctrl_c();
        tokio::pin!(interrupted);
        loop {
            tokio::select! {
                _ = &mut interrupted => return Ok(Exit::Interrupted),
                heard = listening.next() => match heard {
                    Heard::Event(recorded) => {
                        if let Some(exit) = self.happened(&recorded)? {
                            return Ok(exit);
                        }
                    }
                    Heard::Piece(piece) => self.piece(&piece)?,
                    Heard::Note(note) if self.json => output::json(&json!({ "note": note }))?,
                    Heard::Note(note) => output::line(&self.paint.warn(&note))?,
                    Heard::Over(failure) => return Err(failure),
                },
                line = next_line(&mut typed) => match line {
                    Some(line) if line.trim().is_empty() => {}
                    Some(line) => self.send(line).await?,
                    // Nobody types any more; what happens is still followed.
                    None => typed = None,
                },
            }
        }
    }

    async fn send(&self, text: String) -> Result<(), Failure> {
        let path = format!("/api/teams/{}/agents/{}/messages", self.team.id, self.to.slot_id);
        let params = MessageParams { files: Vec::new(), text, urgency: UrgencyParam::Wake };
        let _: MessageAcceptedResponse = self.client.persist(&path, &params).await?;
        Ok(())
    }

    fn follows(&self, slot: u64) -> bool {
        self.member.as_ref().is_none_or(|member| member.slot_id == slot)
    }

    /// Shows an event; with it an exit where there is nothing more to follow.
    fn happened(&mut self, recorded: &Recorded) -> Result<Option<Exit>, Failure> {
        let happening = self.story.tell(recorded);
        let mine = match (&recorded.event, &self.member) {
            (Event::MessageSent { message, recipients, .. }, Some(member)) => {
                let slot = slot_of(member.slot_id);
                message.from == Sender::Agent(slot) || recipients.contains(&slot)
            }
            (_, Some(member)) => {
                happening.slot.is_none_or(|slot| u64::from(slot.0) == member.slot_id)
            }
            (_, None) => true,
        };
        let over = match &recorded.event {
            Event::TeamEnded => true,
            Event::AgentRemoved { slot, .. } => {
                self.member.as_ref().is_some_and(|member| member.slot_id == u64::from(slot.0))
            }
            _ => false,
        };
        if self.json {
            if mine {
                output::json(&event_line(&self.team.id, recorded))?;
            }
        } else if mine {
            self.show(recorded, &happening)?;
        }
        Ok(over.then_some(Exit::Success))
    }

    fn show(
        &mut self,
        recorded: &Recorded,
        happening: &crate::describe::Happening,
    ) -> Result<(), Failure> {
        self.flush()?;
        let team = self.story.team();
        if let Event::MessageSent { message, .. } = &recorded.event {
            let from = match message.from {
                Sender::Agent(slot) => name_of(team, slot),
                Sender::User => "you".to_owned(),
                Sender::System => return Ok(()),
            };
            let to = match message.to {
                Recipient::User => "you".to_owned(),
                other => recipient_name(team, other),
            };
            let text = clean_text(&text_of(message));
            return output::line(&format!(
                "{} {text}",
                self.paint.bold(&format!("{from} → {to}:"))
            ));
        }
        let text = clean_line(&format!("{} {}", happening.who, happening.clause), 300);
        match happening.weight {
            Weight::Detail => Ok(()),
            Weight::Step => output::line(&self.paint.dim(&text)),
            Weight::Alert => output::line(&self.paint.warn(&text)),
        }
    }

    fn piece(&mut self, piece: &StreamFrame) -> Result<(), Failure> {
        if !self.follows(piece.slot_id) {
            return Ok(());
        }
        if self.json {
            return output::json(piece);
        }
        let slot = slot_of(piece.slot_id);
        let name = name_of(self.story.team(), slot);
        for line in self.pieces.take(&name, piece) {
            output::line(&line)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        for line in self.pieces.flush() {
            output::line(&line)?;
        }
        Ok(())
    }
}

fn slot_of(number: u64) -> SlotId {
    u32::try_from(number).map_or(SlotId::LEAD, SlotId)
}

async fn next_line(typed: &mut Option<Typed>) -> Option<String> {
    match typed {
        Some(typed) => typed.next().await,
        None => std::future::pending().await,
    }
}

/// Text that comes in pieces, put together to lines.
#[derive(Debug, Default)]
struct Pieces {
    /// Lines that have not come to their end, by the member that writes them.
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    name: String,
    item: String,
    /// How much of the item was taken.
    taken: u64,
    rest: String,
}

impl Pieces {
    /// Takes a piece; answers the lines that it completes.
    fn take(&mut self, name: &str, piece: &StreamFrame) -> Vec<String> {
        match piece.kind.as_str() {
            "text" => self.text(name, piece),
            _ => self.end(piece.slot_id),
        }
    }

    fn text(&mut self, name: &str, piece: &StreamFrame) -> Vec<String> {
        let mut lines = Vec::new();
        if self.open.get(&piece.slot_id).is_some_and(|open| open.item != piece.item) {
            lines = self.end(piece.slot_id);
        }
        let open = self.open.entry(piece.slot_id).or_insert_with(|| Open {
            name: name.to_owned(),
            item: piece.item.clone(),
            taken: piece.offset,
            rest: String::new(),
        });
        // A reader that comes again is told from the beginning of the item.
        let known = usize::try_from(open.taken.saturating_sub(piece.offset)).unwrap_or(usize::MAX);
        let fresh = piece.text.get(known..).unwrap_or_default();
        open.taken = open.taken.max(piece.offset + piece.text.len() as u64);
        open.rest.push_str(fresh);
        while let Some(at) = open.rest.find('\n') {
            let line: String = open.rest.drain(..=at).collect();
            lines.push(said(&open.name, line.trim_end()));
        }
        lines
    }

    fn end(&mut self, slot: u64) -> Vec<String> {
        self.open
            .remove(&slot)
            .filter(|open| !open.rest.trim().is_empty())
            .map(|open| said(&open.name, open.rest.trim_end()))
            .into_iter()
            .collect()
    }

    fn flush(&mut self) -> Vec<String> {
        let slots: Vec<u64> = self.open.keys().copied().collect();
        slots.into_iter().flat_map(|slot| self.end(slot)).collect()
    }
}

fn said(name: &str, line: &str) -> String {
    format!("{name}: {}", clean_text(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(slot_id: u64, item: &str, offset: u64, kind: &str, text: &str) -> StreamFrame {
        StreamFrame {
            name: "message.stream".to_owned(),
            team_id: "t".to_owned(),
            slot_id,
            turn: 1,
            kind: kind.to_owned(),
            item: item.to_owned(),
            offset,
            text: text.to_owned(),
            tool: None,
            ok: None,
        }
    }

    #[test]
    fn pieces_become_lines_each_once() {
        let mut pieces = Pieces::default();
        let mut take = |slot, item, offset, kind, text| {
            pieces.take(&format!("m{slot}"), &piece(slot, item, offset, kind, text))
        };
        assert_eq!(take(1, "1.0.text", 0, "text", "one "), Vec::<String>::new());
        assert_eq!(take(2, "2.0.text", 0, "text", "other\n"), ["m2: other"]);
        assert_eq!(take(1, "1.0.text", 4, "text", "line\ntwo"), ["m1: one line"]);
        // The same again, as after a gap: nothing is told twice.
        assert_eq!(take(1, "1.0.text", 0, "text", "one line\ntwo"), Vec::<String>::new());
        assert_eq!(take(1, "1.1.text", 0, "text", "three"), ["m1: two"]);
        assert_eq!(take(1, "1.end", 0, "finish", ""), ["m1: three"]);
        assert_eq!(take(1, "1.end", 0, "finish", ""), Vec::<String>::new());
    }
}
