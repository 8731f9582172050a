//! How a turn of an agent ended, in the words of the team; it looks at what programs answer, and
//! never at what a model wrote.

use aion_core::message::shorten;
use aion_core::time::{Millis, Timestamp};
use aion_core::turn::{TurnOutcome, Unavailable};
use serde_json::Value;

use super::frame::Refusal;
use super::greet::login_needed;
use super::profile::{Profile, Quirk};

/// How long a service that is down, or asks for a pause, is left alone.
const DOWN: Millis = Millis(30_000);
const PAUSE: Millis = Millis(60_000);
/// What is told of an error.
const TOLD_BYTES: usize = 1024;
/// The protocol's own code for a login that is missing.
const LOGIN_NEEDED: i64 = -32_000;
/// Fields in which programs say which status a service answered.
const STATUS: [&str; 4] = ["status", "statusCode", "httpStatus", "code"];

/// What is known of a turn at its end.
#[derive(Debug)]
pub(super) struct Ended<'a> {
    pub(super) profile: &'a Profile,
    /// The team's time.
    pub(super) now: Timestamp,
    pub(super) last_text: Option<String>,
    /// It neither said nor did anything.
    pub(super) silent: bool,
    /// A permission was denied to it.
    pub(super) denied: bool,
    /// It has not reached the tools of its team so far.
    pub(super) unconnected: bool,
}

impl Ended<'_> {
    /// By what the agent answered to its prompt.
    pub(super) fn outcome(self, answer: Result<Value, Refusal>) -> TurnOutcome {
        match answer {
            Ok(answer) => self.stopped(answer["stopReason"].as_str().unwrap_or("nothing")),
            Err(refusal) => self.refused(&refusal),
        }
    }

    fn stopped(self, reason: &str) -> TurnOutcome {
        match reason {
            "end_turn" if self.silent && self.profile.quirks.contains(&Quirk::HidesFailures) => {
                TurnOutcome::Unavailable {
                    why: Unavailable::Provider,
                    until: Some(self.now + DOWN),
                    said: Some(silence()),
                }
            }
            "end_turn" if self.silent => self.done(Some(&silence())),
            "end_turn" if self.unconnected => {
                self.done(Some("the tools of its team are not connected so far"))
            }
            "end_turn" => self.done(None),
            "max_tokens" => self.done(Some("its answer reached a limit of tokens")),
            "max_turn_requests" => self.done(Some("its turn reached a limit of model calls")),
            "cancelled" if self.denied => {
                self.done(Some("it ended its turn because a permission was denied"))
            }
            "cancelled" => self.fault("the agent cancelled its turn by itself"),
            "refusal" => self.fault("the agent's model refused to go on"),
            other => {
                let other = shorten(other, 100);
                self.fault(&format!("the agent ended its turn for the unknown reason {other:?}"))
            }
        }
    }

    fn done(self, note: Option<&str>) -> TurnOutcome {
        let last_text = match (self.last_text, note) {
            (text, None) => text,
            (None, Some(note)) => Some(format!("({note})")),
            (Some(text), Some(note)) => Some(format!("{text}\n({note})")),
        };
        TurnOutcome::Done { last_text }
    }

    fn fault(self, error: &str) -> TurnOutcome {
        let error = match self.last_text {
            Some(text) => format!("{error}: {}", shorten(&text, TOLD_BYTES)),
            None => error.to_owned(),
        };
        TurnOutcome::AgentFault { error }
    }

    fn refused(self, refusal: &Refusal) -> TurnOutcome {
        let said = shorten(&refusal.to_string(), TOLD_BYTES);
        let unavailable =
            |why, until, said| TurnOutcome::Unavailable { why, until, said: Some(said) };
        match status(refusal) {
            Some(401 | 403) => {
                let said = format!("{}; it says: {said}", login_needed(self.profile));
                unavailable(Unavailable::Login, None, said)
            }
            Some(429) => unavailable(Unavailable::RateLimit, Some(self.now + PAUSE), said),
            Some(500..=599) => unavailable(Unavailable::Provider, Some(self.now + DOWN), said),
            Some(_) | None => self.fault(&format!("the agent could not run the turn: {said}")),
        }
    }
}

fn silence() -> String {
    "it ended its turn without a word and without a tool call; its model may be out of reach".into()
}

/// The status of HTTP that an error is about, if it names one: by its code, in its fields, or as a
/// number in what the program says.
fn status(refusal: &Refusal) -> Option<i64> {
    if refusal.code == LOGIN_NEEDED {
        return Some(401);
    }
    let is_status = |code: &i64| (400..600).contains(code);
    let data = refusal.data.as_deref().unwrap_or_default();
    let fields: Value = serde_json::from_str(data).unwrap_or_default();
    let in_fields = STATUS.iter().find_map(|field| fields[field].as_i64().filter(is_status));
    let in_words = || {
        let words = refusal.message.split(|c: char| !c.is_ascii_alphanumeric());
        let words = words.chain(data.split(|c: char| !c.is_ascii_alphanumeric()));
        let counts = |code: &i64| matches!(code, 401 | 403 | 429 | 500 | 502 | 503 | 504 | 529);
        words.filter_map(|word| word.parse().ok()).find(counts)
    };
    Some(refusal.code).filter(is_status).or(in_fields).or_else(in_words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn profile(quirks: &[Quirk]) -> Profile {
        let mut profile: Profile = serde_json::from_value(json!({
            "id": "one", "name": "One", "launch": { "program": "one" }, "login": "one login",
        }))
        .unwrap();
        profile.quirks = quirks.iter().copied().collect();
        profile
    }

    fn ended(profile: &Profile) -> Ended<'_> {
        let last_text = Some("text".to_owned());
        Ended {
            profile,
            now: Timestamp(1_000),
            last_text,
            silent: false,
            denied: false,
            unconnected: false,
        }
    }

    fn check(answer: Result<&str, (i64, &str, Option<&str>)>, expect: &str) {
        let answer = match answer {
            Ok(reason) => Ok(json!({ "stopReason": reason })),
            Err((code, message, data)) => {
                Err(Refusal { code, message: message.to_owned(), data: data.map(str::to_owned) })
            }
        };
        let profile = profile(&[]);
        let outcome = match ended(&profile).outcome(answer) {
            TurnOutcome::Done { last_text } => format!("done: {}", last_text.unwrap_or_default()),
            TurnOutcome::AgentFault { error } => format!("fault: {error}"),
            TurnOutcome::Unavailable { why, until, said } => {
                format!("{why:?} {:?}: {}", until.map(|at| at.0), said.unwrap_or_default())
            }
            other => format!("{other:?}"),
        };
        assert_eq!(outcome, expect);
    }

    #[test]
    fn what_an_agent_answers_decides() {
        check(Ok("end_turn"), "done: text");
        check(Ok("max_tokens"), "done: text\n(its answer reached a limit of tokens)");
        check(Ok("refusal"), "fault: the agent's model refused to go on: text");
        check(Ok("cancelled"), "fault: the agent cancelled its turn by itself: text");
        check(
            Ok("error"),
            "fault: the agent ended its turn for the unknown reason \"error\": text",
        );
        let login = "Login None: login needed: run one login; it says: ";
        check(
            Err((-32_000, "Authentication required", None)),
            &format!("{login}Authentication required (code -32000)"),
        );
        check(Err((401, "Unauthorized", None)), &format!("{login}Unauthorized (code 401)"));
        check(
            Err((-32_603, "Internal error", Some(r#"{"details":"401 no such key"}"#))),
            &format!(r#"{login}Internal error (code -32603, {{"details":"401 no such key"}})"#),
        );
        check(
            Err((-32_603, "slow down", Some(r#"{"statusCode":429}"#))),
            r#"RateLimit Some(61000): slow down (code -32603, {"statusCode":429})"#,
        );
        check(
            Err((-32_603, "overloaded (529)", None)),
            "Provider Some(31000): overloaded (529) (code -32603)",
        );
        check(
            Err((-32_603, "line 4012 of 401x", None)),
            "fault: the agent could not run the turn: line 4012 of 401x (code -32603): text",
        );
    }

    #[test]
    fn a_turn_without_a_word_is_marked() {
        let silent = |quirks: &[Quirk]| {
            let profile = profile(quirks);
            let ended = Ended { last_text: None, silent: true, ..ended(&profile) };
            ended.outcome(Ok(json!({ "stopReason": "end_turn" })))
        };
        assert_eq!(silent(&[]), TurnOutcome::Done { last_text: Some(format!("({})", silence())) });
        assert!(matches!(silent(&[Quirk::HidesFailures]), TurnOutcome::Unavailable { .. }));
    }

    #[test]
    fn a_turn_that_a_denial_ended_is_no_fault() {
        let profile = profile(&[]);
        let ended = Ended { denied: true, ..ended(&profile) };
        let outcome = ended.outcome(Ok(json!({ "stopReason": "cancelled" })));
        assert!(matches!(outcome, TurnOutcome::Done { .. }), "{outcome:?}");
    }
}
