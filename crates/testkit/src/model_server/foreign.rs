//! Requests of coding agents that are not ours: what in them the scenario is played over, and what is
//! answered beside it; it holds them to nothing.
//!
//! Such an agent sends what it likes around the mail of its team: prompts of its own, reminders, the
//! whole session before. The scenario is played over the turn alone: from the last text with mail in
//! it, of which only the mail counts, to the end. So a rule fires where its words were delivered in
//! this very turn, and nothing that is merely remembered fires one. A request that offers no tools is
//! no step of a turn, but something aside: a title, a summary, a question of the agent's to itself.

mod read;
mod schema;

use std::sync::atomic::{AtomicU64, Ordering};

use aion_agent::provider::{Message, Part};
use serde_json::{Value, json};

use super::brain::Answer;
use super::wire::Asked;

pub(super) use self::read::read;

/// Fences around mail and offered tasks, by the beginning of their tags.
const FENCES: [&str; 2] = ["<teammate-message-", "<task-"];
/// Who is spoken to in a role prompt, between these.
const ROLES: [&str; 2] = [", the lead of the team \"", ", a teammate in the team \""];
/// The tool of an agent that calls all others by a program.
const PROGRAM: &str = "run_typescript";
/// How such a program calls one of the team's tools.
const IN_PROGRAM: &str = "tools.mcp_team.";

/// A request of such an agent.
#[derive(Clone, Debug)]
pub(super) struct Foreign {
    pub(super) asked: Asked,
    /// The tools that it offers, by the names that it knows them by.
    tools: Vec<Offered>,
    /// The form of an answer that has one.
    form: Option<Value>,
}

/// A tool that an agent offers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Offered {
    name: String,
    /// The name that stands before it.
    space: Option<String>,
}

/// Numbers all calls, so that none is taken for another.
#[derive(Debug, Default)]
pub(super) struct Numbers(AtomicU64);

impl Foreign {
    /// The answer to what is asked aside; none where it is a step of a turn.
    pub(super) fn aside(&self) -> Option<Answer> {
        if !self.tools.is_empty() && !self.asked.messages.is_empty() {
            return None;
        }
        let text = match &self.form {
            Some(form) => schema::sample(form).to_string(),
            None => "ok".to_owned(),
        };
        Some(Answer { parts: vec![Part::Text { text }], ..Answer::default() })
    }

    /// Puts an answer into the agent's own words: its names of tools, and ids that were never given.
    /// An error says which tool it does not offer.
    pub(super) fn outward(&mut self, answer: &mut Answer, numbers: &Numbers) -> Result<(), String> {
        for part in &mut answer.parts {
            let Part::Call { call, tool, input } = part else { continue };
            *call = format!("{call}n{}", numbers.0.fetch_add(1, Ordering::Relaxed));
            if let Some(offered) = self.offered(tool) {
                if let Some(space) = offered.space {
                    self.asked.spaces.insert(offered.name.clone(), space);
                }
                *tool = offered.name;
            } else if self.offered(PROGRAM).is_some() {
                let line = format!("return await {IN_PROGRAM}{tool}({input})");
                *input = json!({ "code": format!("async function main() {{ {line} }}") });
                PROGRAM.clone_into(tool);
            } else {
                let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
                return Err(format!("it offers no tool {tool}, but: {}", names.join(", ")));
            }
        }
        Ok(())
    }

    /// The tool of a name; before it may stand the name of a server.
    fn offered(&self, tool: &str) -> Option<Offered> {
        let whole = self.tools.iter().find(|offered| offered.name == tool);
        let after = |offered: &&Offered| {
            let before = offered.name.strip_suffix(tool);
            before.is_some_and(|before| before.ends_with(|c: char| !c.is_ascii_alphanumeric()))
        };
        whole.or_else(|| self.tools.iter().find(after)).cloned()
    }
}

/// The name of a tool of the team, whatever stands before it; other tools keep theirs.
fn plain_name(name: &str) -> &str {
    name.rfind("team_").map_or(name, |at| &name[at..])
}

/// A call as the scenario knows it.
fn inward(call: String, name: &str, input: Value) -> Part {
    let inside = input["code"].as_str().and_then(|code| code.split_once(IN_PROGRAM));
    if let Some((_, called)) = inside.filter(|_| name == PROGRAM)
        && let Some((tool, rest)) = called.split_once('(')
    {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let input = values.next().and_then(Result::ok).unwrap_or_default();
        return Part::Call { call, tool: tool.to_owned(), input };
    }
    Part::Call { call, tool: plain_name(name).to_owned(), input }
}

/// What a scenario is played over: the last mail, and what followed it. Nothing where there is none.
fn turn_of(messages: Vec<Message>) -> Vec<Message> {
    let mail = messages.iter().enumerate().rev().find_map(|(at, message)| match message {
        Message::Given { turn, text } => {
            let mail = fenced(text);
            (!mail.is_empty()).then_some((at, Message::Given { turn: *turn, text: mail }))
        }
        Message::Answer { .. } | Message::Results { .. } => None,
    });
    let Some((at, mail)) = mail else { return Vec::new() };
    // What the agent says to itself in between is not of the team.
    let own = |message: &Message| !matches!(message, Message::Given { .. });
    std::iter::once(mail).chain(messages.into_iter().skip(at + 1).filter(own)).collect()
}

/// All that stands in fences of a text, with the fences.
fn fenced(text: &str) -> String {
    let mut all = Vec::new();
    let mut rest = text;
    while let Some((at, tag)) = FENCES.iter().filter_map(|tag| Some((rest.find(tag)?, *tag))).min()
    {
        let from = &rest[at..];
        let inside = |c: char| c.is_ascii_alphanumeric();
        let mark: String = from[tag.len()..].chars().take_while(|c| inside(*c)).collect();
        let close = format!("</{}{mark}>", &tag[1..]);
        match from.find(&close) {
            Some(end) if !mark.is_empty() => {
                all.push(&from[..end + close.len()]);
                rest = &from[end + close.len()..];
            }
            Some(_) | None => rest = &from[tag.len()..],
        }
    }
    all.join("\n\n")
}

/// Who is spoken to: the last role prompt among some texts names him.
fn spoken_to<'t>(texts: impl Iterator<Item = &'t str>) -> Option<String> {
    texts
        .filter_map(|text| {
            let (at, _) = ROLES.iter().filter_map(|role| text.rmatch_indices(role).next()).max()?;
            let (_, name) = text[..at].rsplit_once("You are ")?;
            Some(name.to_owned())
        })
        .last()
}

#[cfg(test)]
mod tests {
    use aion_core::id::TurnId;

    use super::*;

    fn given(text: &str) -> Message {
        Message::Given { turn: TurnId(1), text: text.to_owned() }
    }

    #[test]
    fn a_turn_is_the_last_mail_and_what_followed_it() {
        let mail = "<teammate-message-a1 from=\"user\" id=\"m1\">\nGo.\n</teammate-message-a1>";
        let answer = Message::Answer { turn: TurnId(1), step: 0, parts: Vec::new() };
        let messages = vec![
            given("<teammate-message-a0 id=\"m0\">\nBefore.\n</teammate-message-a0>"),
            answer.clone(),
            given(&format!("<your-role>\nYou are bob</your-role>\n{mail}\nNow go.")),
            answer.clone(),
            given("<system-reminder>Be good.</system-reminder>"),
        ];
        assert_eq!(turn_of(messages), [given(mail), answer]);
        assert_eq!(turn_of(vec![given("Find a title.")]), []);
        assert_eq!(fenced("<teammate-message-a1 x>\nit never ends"), "");
    }

    #[test]
    fn who_is_spoken_to_is_in_the_last_role_prompt() {
        let texts = [
            "You are Claude Code.\nYou are bob, a teammate in the team \"web\", working in /w.",
            "You are quick. You are team-lead, the lead of the team \"web\", working in /w.",
            "You are an expert.",
        ];
        assert_eq!(spoken_to(texts[..1].iter().copied()).as_deref(), Some("bob"));
        assert_eq!(spoken_to(texts.into_iter()).as_deref(), Some("team-lead"));
        assert_eq!(spoken_to(std::iter::once("You are an expert.")), None);
    }

    #[test]
    fn tools_are_called_by_the_names_that_an_agent_has_for_them() {
        let numbers = Numbers::default();
        let call = |tool: &str| Part::Call {
            call: "c0-1".into(),
            tool: tool.into(),
            input: json!({ "to": "bob" }),
        };
        let check = |offered: &[&str], tool: &str, expect: Result<(&str, Value), &str>| {
            let tools = offered.iter().map(|name| Offered { name: (*name).into(), space: None });
            let mut foreign =
                Foreign { asked: Asked::default(), tools: tools.collect(), form: None };
            let mut answer = Answer { parts: vec![call(tool)], ..Answer::default() };
            let went = foreign.outward(&mut answer, &numbers);
            let Ok((name, input)) = expect else {
                assert!(went.unwrap_err().contains(expect.unwrap_err()));
                return;
            };
            let Part::Call { tool: called, input: with, call: id } = &answer.parts[0] else {
                panic!("it is no call");
            };
            assert_eq!((called.as_str(), with), (name, &input));
            assert_eq!(
                inward(id.clone(), called, with.clone()),
                Part::Call { call: id.clone(), tool: tool.into(), input: json!({ "to": "bob" }) }
            );
        };
        let plain = json!({ "to": "bob" });
        check(
            &["mcp__team__team_members"],
            "team_members",
            Ok(("mcp__team__team_members", plain.clone())),
        );
        check(
            &["bash", "team-team_members"],
            "team_members",
            Ok(("team-team_members", plain.clone())),
        );
        check(&["xbash", "bash"], "bash", Ok(("bash", plain)));
        let code =
            "async function main() { return await tools.mcp_team.team_members({\"to\":\"bob\"}) }";
        check(&["run_typescript"], "team_members", Ok(("run_typescript", json!({ "code": code }))));
        check(&["bash"], "team_members", Err("it offers no tool team_members, but: bash"));
    }
}
