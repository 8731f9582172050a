//! Which rules a conversation has fired, and what the next answer is; it keeps nothing by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::time::Duration;

use aion_core::budget::Usage;
use aion_core::id::TurnId;
use aion_core::message::shorten;
use aion_core::turn::CallId;
use serde_json::Value;

use super::scenario::{Condition, Failure, Kind, LookAt, Outcome, Rule};
use super::template::{self, Captures};
use crate::provider::{Message, Part, ToolResult};

/// Bytes of each received piece that an error shows.
const SHOWN_BYTES: usize = 600;

/// What a rule, or several of them, answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    pub(super) thoughts: Vec<String>,
    pub(super) texts: Vec<String>,
    pub(super) calls: Vec<OutputCall>,
    pub(super) usage: Option<Usage>,
    pub(super) delay: Duration,
    /// The rule that fails, and how.
    pub(super) fail: Option<(String, Failure)>,
}

/// A call of an answer, with its place in the scenario.
#[derive(Clone, Debug)]
pub(super) struct OutputCall {
    pub(super) tool: String,
    pub(super) input: Value,
    rule: usize,
    place: usize,
}

/// Where an agent stands in its rules after a conversation.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    captures: Captures,
    /// How often each rule fired.
    fired: Vec<usize>,
    /// For each rule and condition: what was found on the tape and not consumed.
    found: Vec<Vec<Vec<Found>>>,
    pieces: usize,
    /// What came since the last answer.
    fresh: Vec<Piece>,
    /// The calls of the last answer.
    calls: BTreeMap<CallId, Pending>,
    turn: Option<TurnId>,
}

/// A match on the tape.
#[derive(Clone, Debug)]
struct Found {
    piece: usize,
    range: Range<usize>,
    groups: Vec<(String, String)>,
}

/// One piece of the tape.
#[derive(Clone, Debug)]
struct Piece {
    number: usize,
    text: String,
    from: From,
}

#[derive(Clone, Debug)]
enum From {
    Given,
    Result { tool: String, ok: bool, call: Option<(usize, usize)>, problem: Option<String> },
}

/// A call whose result is due.
#[derive(Clone, Debug)]
struct Pending {
    tool: String,
    call: Option<(usize, usize)>,
}

impl Progress {
    /// At the beginning of a conversation.
    pub(super) fn new(agent: &str, rules: &[Rule]) -> Self {
        Self {
            captures: Captures::from([("agent".to_owned(), agent.to_owned())]),
            fired: vec![0; rules.len()],
            found: rules.iter().map(|rule| vec![Vec::new(); rule.when.len()]).collect(),
            pieces: 0,
            fresh: Vec::new(),
            calls: BTreeMap::new(),
            turn: None,
        }
    }

    /// Sets what a text may name beside captures.
    pub(super) fn at(&mut self, turn: TurnId, step: u32) {
        self.captures.insert("turn".to_owned(), turn.to_string());
        self.captures.insert("step".to_owned(), step.to_string());
    }

    /// Follows one entry of the conversation.
    pub(super) fn follow(&mut self, rules: &[Rule], message: &Message) -> Result<(), String> {
        match message {
            Message::Given { turn, text } => {
                if self.turn.is_some_and(|last| last != *turn) && !self.fresh.is_empty() {
                    self.abandon(rules);
                }
                self.turn = Some(*turn);
                self.receive(rules, text.clone(), From::Given);
            }
            Message::Results { results, .. } => {
                for result in results {
                    self.result(rules, result);
                }
            }
            Message::Answer { turn, step, parts } => {
                self.at(*turn, *step);
                let output = self
                    .answer(rules)
                    .map_err(|error| format!("at {turn}, step {step}: {error}"))?;
                self.answered(rules, &output, parts).map_err(|error| {
                    format!(
                        "the conversation is not this scenario's: at {turn}, step {step}, {error}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// The next answer. The rules that give it have fired from here on.
    pub(super) fn answer(&mut self, rules: &[Rule]) -> Result<Output, String> {
        let problem = self.fresh.iter().find_map(|piece| match &piece.from {
            From::Result { problem, .. } => problem.clone(),
            From::Given => None,
        });
        if let Some(problem) = problem {
            return Err(self.complaint(rules, &problem));
        }
        let mut output = Output::default();
        if let Some(place) = self.first(rules, |rule| rule.fail.is_some()) {
            self.fire(rules, place);
            self.speak(&rules[place], place, &mut output)?;
            return Ok(output);
        }
        let mut touched = BTreeSet::new();
        let mut any = false;
        while output.calls.is_empty()
            && let Some(place) = self.first(rules, |rule| rule.fail.is_none())
        {
            any = true;
            touched.extend(self.fire(rules, place));
            self.speak(&rules[place], place, &mut output)?;
        }
        let mut unexpected = false;
        for piece in &self.fresh {
            match &piece.from {
                From::Given => {
                    unexpected |= !any && !self.awaited(rules, piece.number, Kind::Once);
                }
                From::Result { ok, call, .. } => {
                    let outcome = call.and_then(|(rule, place)| rules[rule].calls[place].outcome);
                    let at_odds = !*ok && outcome.is_none() && !touched.contains(&piece.number);
                    if at_odds && !self.awaited(rules, piece.number, Kind::Once) {
                        if !self.awaited(rules, piece.number, Kind::Otherwise) {
                            let problem = "a call failed, and no rule expects that it does";
                            return Err(self.complaint(rules, problem));
                        }
                        unexpected |= !any;
                    }
                }
            }
        }
        if any {
            return Ok(output);
        }
        for place in self.returned() {
            if let Some(then) = &rules[place].then {
                output.texts.push(template::text(then, &self.captures)?);
            }
        }
        if unexpected {
            let Some(place) = self.otherwise(rules) else {
                return Err(self.complaint(rules, "no rule expects what it received"));
            };
            self.speak(&rules[place], place, &mut output)?;
        }
        Ok(output)
    }

    /// Puts a text on the tape.
    fn receive(&mut self, rules: &[Rule], text: String, from: From) {
        let number = self.pieces;
        self.pieces += 1;
        for (place, rule) in rules.iter().enumerate() {
            if rule.kind == Kind::Once && self.fired[place] > 0 {
                continue;
            }
            for (condition, found) in rule.when.iter().zip(&mut self.found[place]) {
                if condition.looks_at(&from) {
                    found.extend(matches(condition, number, &text));
                }
            }
        }
        self.fresh.push(Piece { number, text, from });
    }

    fn result(&mut self, rules: &[Rule], result: &ToolResult) {
        let ToolResult { call, text, ok, images: _ } = result;
        let pending = self.calls.remove(call);
        let (tool, call) = pending.map_or((String::new(), None), |p| (p.tool, p.call));
        let mut problem = None;
        if let Some((rule, place)) = call {
            let expected = &rules[rule].calls[place];
            let whose = format!("the {tool} call of rule {}", rules[rule].label);
            match expected.outcome {
                Some(Outcome::Ok) if !ok => {
                    problem = Some(format!("{whose} has to go well, and failed"));
                }
                Some(Outcome::Failed) if *ok => {
                    problem = Some(format!("{whose} has to fail, and went well"));
                }
                Some(Outcome::Ok | Outcome::Failed | Outcome::Any) | None => {}
            }
            if let Some(expect) = &expected.expect {
                match expect.captures(text) {
                    Some(captures) => self.captures.extend(groups(expect, &captures)),
                    None if expected.outcome == Some(Outcome::Any) && !ok => {}
                    None => problem = Some(format!("the result of {whose} has to match {expect}")),
                }
            }
        }
        self.receive(rules, text.clone(), From::Result { tool, ok: *ok, call, problem });
    }

    /// Takes note of an answer that the conversation holds.
    fn answered(&mut self, rules: &[Rule], output: &Output, parts: &[Part]) -> Result<(), String> {
        let calls: Vec<_> = parts
            .iter()
            .filter_map(|part| match part {
                Part::Call { call, tool, .. } => Some((call, tool)),
                Part::Text { .. } | Part::Thought { .. } => None,
            })
            .collect();
        if let Some((rule, _)) = &output.fail {
            return Err(format!("rule {rule} fails, and there is an answer"));
        }
        // An answer that was interrupted may have lost its calls.
        let same = calls.is_empty()
            || calls
                .iter()
                .map(|(_, tool)| tool.as_str())
                .eq(output.calls.iter().map(|c| c.tool.as_str()));
        if !same {
            let names = |mut names: Vec<&str>| {
                names.dedup();
                names.join(", ")
            };
            return Err(format!(
                "the rules call [{}], and it has [{}]",
                names(output.calls.iter().map(|c| c.tool.as_str()).collect()),
                names(calls.iter().map(|(_, tool)| tool.as_str()).collect()),
            ));
        }
        self.fresh.clear();
        // Rules for what nobody expects look at what is new only.
        for (rule, found) in rules.iter().zip(&mut self.found) {
            if rule.kind == Kind::Otherwise {
                found.iter_mut().for_each(Vec::clear);
            }
        }
        self.calls = calls
            .into_iter()
            .zip(&output.calls)
            .map(|((id, tool), call)| {
                let pending = Pending { tool: tool.clone(), call: Some((call.rule, call.place)) };
                (id.clone(), pending)
            })
            .collect();
        Ok(())
    }

    /// A turn ended without an answer to what came last. If a rule fails there, that is what it did.
    fn abandon(&mut self, rules: &[Rule]) {
        if let Some(place) = self.first(rules, |rule| rule.fail.is_some()) {
            self.fire(rules, place);
        }
        let given: BTreeSet<usize> = self
            .fresh
            .drain(..)
            .filter(|piece| matches!(piece.from, From::Given))
            .map(|piece| piece.number)
            .collect();
        for found in self.found.iter_mut().flatten() {
            found.retain(|found| !given.contains(&found.piece));
        }
    }

    /// The first rule that may fire.
    fn first(&self, rules: &[Rule], fits: impl Fn(&Rule) -> bool) -> Option<usize> {
        (0..rules.len()).find(|place| {
            let rule = &rules[*place];
            rule.kind != Kind::Otherwise
                && fits(rule)
                && self.is_open(rule, *place)
                && rule.after.iter().all(|other| self.fired[*other] > 0)
                && rule
                    .when
                    .iter()
                    .zip(&self.found[*place])
                    .all(|(c, found)| found.len() >= c.times)
        })
    }

    fn is_open(&self, rule: &Rule, place: usize) -> bool {
        rule.kind != Kind::Once || self.fired[place] == 0
    }

    /// Fires a rule; answers the pieces of the tape that it consumed from.
    fn fire(&mut self, rules: &[Rule], place: usize) -> BTreeSet<usize> {
        self.fired[place] += 1;
        let mut taken: Vec<(usize, Range<usize>)> = Vec::new();
        for (condition, found) in rules[place].when.iter().zip(&self.found[place]) {
            for found in found.iter().take(condition.times) {
                self.captures.extend(found.groups.iter().cloned());
                if condition.look_at != LookAt::Seen {
                    taken.push((found.piece, found.range.clone()));
                }
            }
        }
        for (rule, found) in rules.iter().zip(&mut self.found) {
            for (condition, found) in rule.when.iter().zip(found) {
                if condition.look_at != LookAt::Seen {
                    found.retain(|found| !taken.iter().any(|taken| found.overlaps(taken)));
                }
            }
        }
        taken.into_iter().map(|(piece, _)| piece).collect()
    }

    fn speak(&self, rule: &Rule, place: usize, output: &mut Output) -> Result<(), String> {
        let fail = |error: String| format!("rule {}: {error}", rule.label);
        let fill = |template: &str| template::text(template, &self.captures).map_err(fail);
        output.thoughts.extend(rule.think.as_deref().map(fill).transpose()?);
        output.texts.extend(rule.say.as_deref().map(fill).transpose()?);
        for (number, call) in rule.calls.iter().enumerate() {
            let input = template::json(&call.input, &self.captures).map_err(fail)?;
            output.calls.push(OutputCall {
                tool: call.tool.clone(),
                input,
                rule: place,
                place: number,
            });
        }
        if let Some(usage) = rule.usage {
            output.usage = Some(output.usage.unwrap_or_default().plus(usage));
        }
        output.delay += rule.delay;
        output.fail = rule.fail.map(|failure| (rule.label.clone(), failure));
        Ok(())
    }

    /// Whether a rule that may still fire found something in a piece. `Once` stands for `Repeat` too.
    fn awaited(&self, rules: &[Rule], piece: usize, kind: Kind) -> bool {
        rules.iter().enumerate().any(|(place, rule)| {
            (rule.kind == Kind::Otherwise) == (kind == Kind::Otherwise)
                && self.is_open(rule, place)
                && self.found[place].iter().flatten().any(|found| found.piece == piece)
        })
    }

    /// The rules whose calls have just returned.
    fn returned(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self
            .fresh
            .iter()
            .filter_map(|piece| match piece.from {
                From::Result { call: Some((rule, _)), .. } => Some(rule),
                From::Result { call: None, .. } | From::Given => None,
            })
            .collect();
        places.dedup();
        places
    }

    /// The first rule for what nobody expects that fits what is new; its groups are captured.
    fn otherwise(&mut self, rules: &[Rule]) -> Option<usize> {
        let fresh: BTreeSet<usize> = self.fresh.iter().map(|piece| piece.number).collect();
        let place = (0..rules.len()).find(|place| {
            rules[*place].kind == Kind::Otherwise
                && rules[*place].when.iter().zip(&self.found[*place]).all(|(condition, found)| {
                    found.iter().filter(|f| fresh.contains(&f.piece)).count() >= condition.times
                })
        })?;
        let groups: Vec<_> = self.found[place]
            .iter()
            .flatten()
            .filter(|found| fresh.contains(&found.piece))
            .flat_map(|found| found.groups.iter().cloned())
            .collect();
        self.captures.extend(groups);
        self.fired[place] += 1;
        Some(place)
    }

    /// An error with everything that helps to find the mistake.
    fn complaint(&self, rules: &[Rule], problem: &str) -> String {
        let mut out = problem.to_owned();
        out.push_str("\nreceived since its last answer:");
        // Writing to a string cannot fail.
        for piece in &self.fresh {
            let text = shorten(&piece.text, SHOWN_BYTES);
            let _ = match &piece.from {
                From::Given => write!(out, "\n  given: {text:?}"),
                From::Result { tool, ok, .. } => {
                    write!(
                        out,
                        "\n  result of {tool} ({}): {text:?}",
                        if *ok { "ok" } else { "failed" }
                    )
                }
            };
        }
        out.push_str("\nopen rules, and what they wait for:");
        let mut none = true;
        for (place, rule) in rules.iter().enumerate().filter(|(p, r)| self.is_open(r, *p)) {
            none = false;
            let _ = write!(out, "\n  {}: ", rule.label);
            let mut waits: Vec<String> = rule
                .when
                .iter()
                .zip(&self.found[place])
                .filter(|(condition, found)| found.len() < condition.times)
                .map(|(condition, found)| match condition.times {
                    1 => condition.text.clone(),
                    times => format!("{} ({} of {times} times)", condition.text, found.len()),
                })
                .collect();
            waits.extend(
                rule.after
                    .iter()
                    .filter(|other| self.fired[**other] == 0)
                    .map(|other| format!("rule {}", rules[*other].label)),
            );
            out.push_str(&waits.join(" and "));
        }
        if none {
            out.push_str(" none");
        }
        let fired: Vec<&str> = rules
            .iter()
            .zip(&self.fired)
            .filter(|(_, count)| **count > 0)
            .map(|(rule, _)| rule.label.as_str())
            .collect();
        let _ = write!(
            out,
            "\nfired: {}",
            if fired.is_empty() { "none".to_owned() } else { fired.join(", ") }
        );
        out
    }
}

impl Found {
    fn overlaps(&self, (piece, range): &(usize, Range<usize>)) -> bool {
        self.piece == *piece && self.range.start < range.end && range.start < self.range.end
    }
}

impl Condition {
    fn looks_at(&self, from: &From) -> bool {
        match (&self.look_at, from) {
            (LookAt::Seen, _) | (LookAt::Given, From::Given) => true,
            (LookAt::Result { tool: wanted, ok: wanted_ok }, From::Result { tool, ok, .. }) => {
                wanted.as_ref().is_none_or(|wanted| wanted == tool)
                    && wanted_ok.is_none_or(|wanted| wanted == *ok)
            }
            (LookAt::Given, From::Result { .. }) | (LookAt::Result { .. }, From::Given) => false,
        }
    }
}

/// Everything that a condition finds in a text. An empty match is none.
fn matches(condition: &Condition, piece: usize, text: &str) -> Vec<Found> {
    condition
        .pattern
        .captures_iter(text)
        .filter_map(|captures| {
            let range = captures.get(0)?.range();
            let groups = groups(&condition.pattern, &captures);
            (!range.is_empty()).then_some(Found { piece, range, groups })
        })
        .collect()
}

fn groups(pattern: &regex::Regex, captures: &regex::Captures<'_>) -> Vec<(String, String)> {
    pattern
        .capture_names()
        .flatten()
        .filter_map(|name| Some((name.to_owned(), captures.name(name)?.as_str().to_owned())))
        .collect()
}
