//! A scenario file, read and checked as a whole; a mistake names file, agent and rule.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aion_core::budget::Usage;
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;

/// The name that stands for every agent that is not named.
const ANYBODY: &str = "*";

/// Who says what, when.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The file's name, for messages.
    pub(super) file: String,
    agents: BTreeMap<String, Vec<Rule>>,
}

/// Why a scenario cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It is no TOML, or has other tables than a scenario.
    #[error("read the scenario {file}: {reason}")]
    Format {
        /// The file.
        file: String,
        /// Why, with the place.
        reason: String,
    },
    /// A rule cannot be played.
    #[error("read the scenario {file}: agent {agent:?}, rule {rule}: {reason}")]
    Rule {
        /// The file.
        file: String,
        /// The agent.
        agent: String,
        /// The rule: its number, and its name if it has one.
        rule: String,
        /// Why not.
        reason: String,
    },
}

/// One rule of one agent.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// Number and name, for messages.
    pub(super) label: String,
    pub(super) name: Option<String>,
    pub(super) when: Vec<Condition>,
    /// Places of the rules that have to have fired.
    pub(super) after: Vec<usize>,
    pub(super) say: Option<String>,
    pub(super) think: Option<String>,
    pub(super) calls: Vec<ScriptedCall>,
    pub(super) then: Option<String>,
    pub(super) kind: Kind,
    pub(super) usage: Option<Usage>,
    pub(super) fail: Option<Failure>,
    pub(super) delay: Duration,
}

/// How often a rule fires, and when it is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Once,
    Repeat,
    Otherwise,
}

/// Something to look for.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    pub(super) look_at: LookAt,
    pub(super) pattern: Regex,
    pub(super) times: usize,
    /// As it is in the file.
    pub(super) text: String,
}

/// Where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LookAt {
    Given,
    Result { tool: Option<String>, ok: Option<bool> },
    Seen,
}

/// A tool call of a rule.
#[derive(Clone, Debug)]
pub(super) struct ScriptedCall {
    pub(super) tool: String,
    pub(super) input: Value,
    pub(super) expect: Option<Regex>,
    pub(super) outcome: Option<Outcome>,
}

/// How a call has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Ok,
    Failed,
    Any,
}

/// A failure on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Panic,
    Fault,
    Unavailable(Option<Duration>),
    RateLimit(Option<Duration>),
    Login,
    Broken,
    Hang,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    /// For whoever reads the file.
    #[serde(rename = "about")]
    _about: Option<String>,
    #[serde(default)]
    agent: BTreeMap<String, RawAgent>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAgent {
    #[serde(default)]
    rule: Vec<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    name: Option<String>,
    #[serde(default)]
    when: Vec<RawCondition>,
    #[serde(default)]
    after: Vec<String>,
    say: Option<String>,
    think: Option<String>,
    #[serde(default)]
    call: Vec<RawCall>,
    then: Option<String>,
    #[serde(default)]
    repeat: bool,
    #[serde(default)]
    otherwise: bool,
    usage: Option<Usage>,
    fail: Option<RawFailure>,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    delay_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCondition {
    given: Option<String>,
    given_text: Option<String>,
    result: Option<String>,
    result_text: Option<String>,
    seen: Option<String>,
    seen_text: Option<String>,
    tool: Option<String>,
    ok: Option<bool>,
    times: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCall {
    tool: String,
    #[serde(default = "empty_input")]
    input: Value,
    expect: Option<String>,
    outcome: Option<Outcome>,
}

fn empty_input() -> Value {
    Value::Object(serde_json::Map::new())
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawFailure {
    Panic,
    Fault,
    Unavailable,
    RateLimit,
    Login,
    Broken,
    Hang,
}

impl Scenario {
    /// Reads a text; `file` is what messages call it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let file = file.to_owned();
        let raw: RawFile = toml::from_str(text).map_err(|error| ScenarioError::Format {
            file: file.clone(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let mut agents = BTreeMap::new();
        for (agent, RawAgent { rule }) in raw.agent {
            let rules = rules(rule).map_err(|(rule, reason)| ScenarioError::Rule {
                file: file.clone(),
                agent: agent.clone(),
                rule,
                reason,
            })?;
            agents.insert(agent, rules);
        }
        Ok(Self { file, agents })
    }

    /// The agents it has words for; `*` stands for all others.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.agents.keys().map(String::as_str)
    }

    /// The rules of an agent.
    pub(super) fn rules(&self, agent: &str) -> Option<&[Rule]> {
        self.agents.get(agent).or_else(|| self.agents.get(ANYBODY)).map(Vec::as_slice)
    }
}

fn rules(raw: Vec<toml::Value>) -> Result<Vec<Rule>, (String, String)> {
    let mut rules: Vec<Rule> = Vec::with_capacity(raw.len());
    let mut afters = Vec::with_capacity(raw.len());
    let mut names = BTreeSet::new();
    for (index, value) in raw.into_iter().enumerate() {
        let number = (index + 1).to_string();
        let name = value.get("name").and_then(toml::Value::as_str);
        let label = name.map_or_else(|| number.clone(), |name| format!("{number} ({name:?})"));
        let fail = |reason: String| (label.clone(), reason);
        let raw: RawRule =
            value.try_into().map_err(|error: toml::de::Error| fail(error.message().to_owned()))?;
        if let Some(name) = &raw.name
            && !names.insert(name.clone())
        {
            return Err(fail("another rule of the agent has this name".to_owned()));
        }
        afters.push(raw.after.clone());
        rules.push(rule(label.clone(), raw).map_err(fail)?);
    }
    for (index, after) in afters.into_iter().enumerate() {
        for name in after {
            let place = rules.iter().position(|rule| rule.name.as_ref() == Some(&name));
            let label = || rules[index].label.clone();
            match place {
                Some(place) if place != index => rules[index].after.push(place),
                Some(_) => return Err((label(), format!("after: {name:?} is the rule itself"))),
                None => return Err((label(), format!("after: no rule is called {name:?}"))),
            }
        }
    }
    Ok(rules)
}

fn rule(label: String, raw: RawRule) -> Result<Rule, String> {
    let when = raw.when.into_iter().map(condition).collect::<Result<Vec<_>, _>>()?;
    let calls = raw.call.into_iter().map(call).collect::<Result<Vec<_>, _>>()?;
    let kind = match (raw.repeat, raw.otherwise) {
        (true, true) => return Err("repeat and otherwise exclude each other".to_owned()),
        (true, false) => Kind::Repeat,
        (false, true) => Kind::Otherwise,
        (false, false) => Kind::Once,
    };
    if kind == Kind::Repeat && !when.iter().any(|c| c.look_at != LookAt::Seen) {
        return Err("a rule that repeats needs a condition on given or result".to_owned());
    }
    let wait = raw.retry_after_ms.map(Duration::from_millis);
    let fail = raw.fail.map(|fail| match fail {
        RawFailure::Panic => Failure::Panic,
        RawFailure::Fault => Failure::Fault,
        RawFailure::Unavailable => Failure::Unavailable(wait),
        RawFailure::RateLimit => Failure::RateLimit(wait),
        RawFailure::Login => Failure::Login,
        RawFailure::Broken => Failure::Broken,
        RawFailure::Hang => Failure::Hang,
    });
    if fail.is_some() {
        if raw.say.is_some() || raw.think.is_some() || raw.then.is_some() || !calls.is_empty() {
            return Err("a rule that fails says and calls nothing".to_owned());
        }
        if kind == Kind::Otherwise {
            return Err("fail and otherwise exclude each other".to_owned());
        }
    } else if wait.is_some() {
        return Err("retry_after_ms belongs to fail".to_owned());
    }
    if raw.then.is_some() && calls.is_empty() {
        return Err("then follows calls, and there are none".to_owned());
    }
    Ok(Rule {
        label,
        name: raw.name,
        when,
        after: Vec::new(),
        say: raw.say,
        think: raw.think,
        calls,
        then: raw.then,
        kind,
        usage: raw.usage,
        fail,
        delay: Duration::from_millis(raw.delay_ms),
    })
}

fn condition(raw: RawCondition) -> Result<Condition, String> {
    let RawCondition { given, given_text, result, result_text, seen, seen_text, tool, ok, times } =
        raw;
    let plain = |text: Option<String>| text.map(|text| (regex::escape(&text), text));
    let regex = |text: Option<String>| text.map(|text| (text.clone(), text));
    let narrowed = tool.is_some() || ok.is_some();
    let of_results = LookAt::Result { tool, ok };
    let mut found = [
        (LookAt::Given, "given", regex(given)),
        (LookAt::Given, "given_text", plain(given_text)),
        (of_results.clone(), "result", regex(result)),
        (of_results, "result_text", plain(result_text)),
        (LookAt::Seen, "seen", regex(seen)),
        (LookAt::Seen, "seen_text", plain(seen_text)),
    ]
    .into_iter()
    .filter_map(|(look_at, key, pattern)| pattern.map(|pattern| (look_at, key, pattern)));
    let (Some((look_at, key, (pattern, text))), None) = (found.next(), found.next()) else {
        return Err(
            "when: a condition has exactly one of given, given_text, result, result_text, seen, seen_text"
                .to_owned(),
        );
    };
    if narrowed && !matches!(look_at, LookAt::Result { .. }) {
        return Err(format!("when: tool and ok belong to result, not to {key}"));
    }
    let times = times.unwrap_or(1);
    if times == 0 {
        return Err("when: times has to be at least 1".to_owned());
    }
    let pattern = compile(&pattern, "when")?;
    Ok(Condition { look_at, pattern, times, text: format!("{key} {text:?}") })
}

fn call(raw: RawCall) -> Result<ScriptedCall, String> {
    if !raw.input.is_object() {
        return Err(format!("call: the input of {} has to be a table", raw.tool));
    }
    let expect = raw.expect.map(|pattern| compile(&pattern, "expect")).transpose()?;
    Ok(ScriptedCall { tool: raw.tool, input: raw.input, expect, outcome: raw.outcome })
}

fn compile(pattern: &str, key: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| format!("{key}: {error}"))
}
