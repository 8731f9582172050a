//! Answers to requests, as a person types them; what an answer leads to is the rules' business.

use std::io::{self, BufRead, IsTerminal};
use std::thread;

use aion_core::command::Command;
use aion_core::id::RequestId;
use aion_core::message::Sender;
use aion_core::permission::{GrantScope, PermissionAsk};
use aion_core::request::{Decision, Request, RequestKind};
use aion_core::shutdown::{ShutdownHandshake, ShutdownStage};
use aion_core::team::Team;
use tokio::sync::mpsc;

use crate::details::details;
use crate::view::{name_of, sender_name, what};

/// A request as it is put to a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The request.
    pub(crate) request: RequestId,
    /// Who asks.
    pub(crate) from: String,
    /// What for, in a word.
    pub(crate) kind: &'static str,
    /// What exactly.
    pub(crate) what: String,
    /// Everything that the answer is about, line by line, where `what` is not all of it.
    pub(crate) details: Vec<String>,
    /// Answers to choose from, where there are some.
    pub(crate) options: Vec<String>,
    /// What may be typed.
    pub(crate) keys: String,
}

impl Question {
    /// The same where nobody is there to type an answer.
    pub(crate) fn unanswered(self) -> Self {
        Self { keys: String::new(), ..self }
    }

    /// Puts a request into words.
    pub(crate) fn of(team: &Team, request: &Request) -> Self {
        let from = sender_name(team, request.from);
        let (options, keys) = match &request.kind {
            RequestKind::Permission(ask) => (
                vec![],
                match always(ask) {
                    Some(what) => format!(
                        "y yes, once · a always {what} for {from} · t {what} for the whole team · n no · or type why not"
                    ),
                    None => format!(
                        "y yes, once · a always exactly this for {from} · n no · or type why not"
                    ),
                },
            ),
            RequestKind::Network(ask) => (
                vec![],
                format!("y yes · a always {} for {from} · n no · or type why not", ask.host),
            ),
            RequestKind::Plan(_) => {
                (vec![], "y the plan is good · or type what has to change".to_owned())
            }
            RequestKind::Shutdown(handshake) => (
                vec![],
                if is_own_wish(handshake) {
                    format!(
                        "y {0} leaves · n {0} stays · f end {0} at once · or type why it stays",
                        name_of(team, handshake.slot)
                    )
                } else {
                    format!(
                        "y end {0} at once · n {0} stays, and the request is taken back",
                        name_of(team, handshake.slot)
                    )
                },
            ),
            RequestKind::Spawn(_)
            | RequestKind::CreateTeam(_)
            | RequestKind::RaiseBudget(_)
            | RequestKind::DeleteTeam => (vec![], "y yes · n no · or type why not".to_owned()),
            RequestKind::Question(question) if question.options.is_empty() => {
                (vec![], "type your answer".to_owned())
            }
            RequestKind::Question(question) => {
                (question.options.clone(), "type a number, or your own answer".to_owned())
            }
        };
        let what = what(team, &request.kind);
        let details = details(&request.kind, &what);
        let kind = request.kind.name();
        Self { request: request.id, from, kind, what, details, options, keys }
    }
}

/// What is said to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is decided.
    Decide(Decision),
    /// It is taken back: whoever was asked need not answer.
    TakeBack,
}

impl Answer {
    /// The command that says it.
    pub(crate) fn command(self, request: RequestId) -> Command {
        match self {
            Self::Decide(decision) => Command::Decide { request, decision },
            Self::TakeBack => Command::Withdraw { request },
        }
    }
}

/// Whether a member asked to leave by itself: only then an answer is a person's to give.
fn is_own_wish(handshake: &ShutdownHandshake) -> bool {
    handshake.by == Sender::Agent(handshake.slot)
}

/// Whether a request is put to the person at once. What the lead or the member itself is to answer
/// comes to the person when nobody else can go on.
pub(crate) fn is_for_person(request: &Request) -> bool {
    match &request.kind {
        RequestKind::Shutdown(handshake) => handshake.stage == ShutdownStage::Person,
        RequestKind::Permission(_)
        | RequestKind::Network(_)
        | RequestKind::Plan(_)
        | RequestKind::Spawn(_)
        | RequestKind::CreateTeam(_)
        | RequestKind::RaiseBudget(_)
        | RequestKind::DeleteTeam
        | RequestKind::Question(_) => !request.delegated,
    }
}

/// What "always" would allow: the rule that fits the call, else the tool; nothing where that is any
/// command whatever.
fn always(ask: &PermissionAsk) -> Option<String> {
    match &ask.suggestion {
        Some(rule) => Some(rule.to_string()),
        None if ask.tool == "Bash" => None,
        None => Some(ask.tool.clone()),
    }
}

/// Reads a typed answer. None if it says nothing that could be an answer.
pub(crate) fn parse(kind: &RequestKind, typed: &str) -> Option<Answer> {
    let typed = typed.trim();
    let lower = typed.to_ascii_lowercase();
    let yes = matches!(lower.as_str(), "y" | "yes");
    let no = matches!(lower.as_str(), "n" | "no");
    if typed.is_empty() {
        return None;
    }
    Some(Answer::Decide(match kind {
        RequestKind::Permission(ask) => match lower.as_str() {
            _ if yes => Decision::ONCE,
            "a" | "always" => match always(ask) {
                Some(_) => {
                    Decision::Allow { scope: GrantScope::Member, rule: ask.suggestion.clone() }
                }
                None => Decision::Allow { scope: GrantScope::Action, rule: None },
            },
            "t" | "team" if always(ask).is_some() => {
                Decision::Allow { scope: GrantScope::Team, rule: ask.suggestion.clone() }
            }
            _ if no => Decision::Deny { reason: String::new() },
            _ => Decision::Deny { reason: typed.to_owned() },
        },
        RequestKind::Network(_) => match lower.as_str() {
            _ if yes => Decision::ONCE,
            "a" | "always" => Decision::Allow { scope: GrantScope::Member, rule: None },
            "t" | "team" => Decision::Allow { scope: GrantScope::Team, rule: None },
            _ if no => Decision::Deny { reason: String::new() },
            _ => Decision::Deny { reason: typed.to_owned() },
        },
        RequestKind::Plan(_) if yes => Decision::ApprovePlan { mode: None },
        // A plan that goes back says what has to change.
        RequestKind::Plan(_) if no => return None,
        RequestKind::Plan(_) => Decision::ReturnPlan { feedback: typed.to_owned() },
        RequestKind::Shutdown(handshake) if !is_own_wish(handshake) => match lower.as_str() {
            "f" | "force" => Decision::ForceShutdown,
            _ if yes => Decision::ForceShutdown,
            _ => return Some(Answer::TakeBack),
        },
        RequestKind::Shutdown(_) => match lower.as_str() {
            _ if yes => Decision::ApproveShutdown,
            "f" | "force" => Decision::ForceShutdown,
            _ if no => {
                Decision::RejectShutdown { reason: "the person wants it to stay".to_owned() }
            }
            _ => Decision::RejectShutdown { reason: typed.to_owned() },
        },
        RequestKind::Spawn(_)
        | RequestKind::CreateTeam(_)
        | RequestKind::RaiseBudget(_)
        | RequestKind::DeleteTeam => {
            if yes {
                Decision::Consent
            } else {
                Decision::Decline { reason: (!no).then(|| typed.to_owned()) }
            }
        }
        RequestKind::Question(question) => {
            let chosen = typed
                .parse::<usize>()
                .ok()
                .and_then(|number| question.options.get(number.checked_sub(1)?));
            Decision::Answer { text: chosen.cloned().unwrap_or_else(|| typed.to_owned()) }
        }
    }))
}

/// The answer where nobody is asked and everything is allowed.
pub(crate) fn yes(kind: &RequestKind) -> Answer {
    Answer::Decide(match kind {
        RequestKind::Permission(_) | RequestKind::Network(_) => Decision::ONCE,
        RequestKind::Plan(_) => Decision::ApprovePlan { mode: None },
        RequestKind::Shutdown(handshake) if is_own_wish(handshake) => Decision::ApproveShutdown,
        RequestKind::Shutdown(_) => Decision::ForceShutdown,
        RequestKind::Spawn(_)
        | RequestKind::CreateTeam(_)
        | RequestKind::RaiseBudget(_)
        | RequestKind::DeleteTeam => Decision::Consent,
        RequestKind::Question(question) => match question.options.first() {
            Some(first) => Decision::Answer { text: first.clone() },
            None => Decision::Decline { reason: Some("nobody is there to answer".to_owned()) },
        },
    })
}

/// The answer where nobody is asked and nothing is allowed.
pub(crate) fn no(kind: &RequestKind) -> Answer {
    let reason = "nobody is there to decide".to_owned();
    Answer::Decide(match kind {
        RequestKind::Permission(_) | RequestKind::Network(_) => Decision::Deny { reason },
        RequestKind::Plan(_) => Decision::ReturnPlan { feedback: reason },
        RequestKind::Shutdown(handshake) if !is_own_wish(handshake) => return Answer::TakeBack,
        RequestKind::Shutdown(_) => Decision::RejectShutdown { reason },
        RequestKind::Spawn(_)
        | RequestKind::CreateTeam(_)
        | RequestKind::RaiseBudget(_)
        | RequestKind::DeleteTeam
        | RequestKind::Question(_) => Decision::Decline { reason: Some(reason) },
    })
}

/// Who decides what only a person can decide.
#[derive(Debug)]
pub(crate) enum Decider {
    /// A person types.
    Person(Typed),
    /// A function answers: the same request always gets the same answer.
    Auto(fn(&RequestKind) -> Answer),
    /// Nobody. When only a person can go on, the run ends.
    Nobody,
    /// Nobody, and the first request ends the run.
    Fail,
}

/// What a person types, line by line.
#[derive(Debug)]
pub(crate) struct Typed {
    lines: mpsc::UnboundedReceiver<String>,
    /// Whether it comes from a terminal: what is typed there before a question is no answer to it.
    pub(crate) live: bool,
}

impl Typed {
    /// Begins to read standard input.
    pub(crate) fn read() -> Self {
        let live = io::stdin().is_terminal();
        let (sender, lines) = mpsc::unbounded_channel();
        // A thread of its own: a read that waits for a person cannot be called off, and must not
        // keep the process from ending.
        thread::spawn(move || {
            for line in io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, live }
    }

    /// The next line; none at the end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.lines.recv().await
    }

    /// Forgets what was typed already.
    pub(crate) fn forget(&mut self) {
        while self.lines.try_recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use aion_core::id::SlotId;
    use aion_core::plan::PlanSubmission;
    use aion_core::question::Question;

    use super::*;

    #[test]
    fn what_is_typed_becomes_a_decision() {
        let check = |kind: &RequestKind, typed: &str, expect: Option<Decision>| {
            assert_eq!(parse(kind, typed), expect.map(Answer::Decide), "{typed:?}");
        };
        let plan = RequestKind::Plan(PlanSubmission::new("do it".to_owned()));
        check(&plan, "y", Some(Decision::ApprovePlan { mode: None }));
        check(&plan, "n", None);
        check(&plan, "  ", None);
        let feedback = "name the files".to_owned();
        check(&plan, " name the files ", Some(Decision::ReturnPlan { feedback }));
        let options = vec!["red".to_owned(), "blue".to_owned()];
        let question = RequestKind::Question(Question { text: "which?".to_owned(), options });
        let answer = |text: &str| Some(Decision::Answer { text: text.to_owned() });
        check(&question, "2", answer("blue"));
        check(&question, "3", answer("3"));
        check(&question, "green", answer("green"));
        check(&RequestKind::DeleteTeam, "YES", Some(Decision::Consent));
        check(&RequestKind::DeleteTeam, "no", Some(Decision::Decline { reason: None }));
    }

    #[test]
    fn nobody_answers_a_shutdown_in_the_members_name() {
        let bob = SlotId(2);
        let shutdown = |by: Sender| {
            let stage = ShutdownStage::Person;
            RequestKind::Shutdown(ShutdownHandshake { slot: bob, by, reason: None, stage })
        };
        let end = Answer::Decide(Decision::ForceShutdown);
        let leave = Answer::Decide(Decision::ApproveShutdown);
        for by in [Sender::User, Sender::Agent(SlotId::LEAD)] {
            let kind = shutdown(by);
            for (typed, expect) in [
                ("y", &end),
                ("f", &end),
                ("n", &Answer::TakeBack),
                ("it has work", &Answer::TakeBack),
            ] {
                assert_eq!(parse(&kind, typed).as_ref(), Some(expect), "{typed}");
            }
            assert_eq!((yes(&kind), no(&kind)), (end.clone(), Answer::TakeBack));
        }
        let own = shutdown(Sender::Agent(bob));
        assert_eq!(parse(&own, "y"), Some(leave.clone()));
        assert_eq!(parse(&own, "f"), Some(end));
        assert_eq!(yes(&own), leave);
        let stay =
            |answer: Answer| matches!(answer, Answer::Decide(Decision::RejectShutdown { .. }));
        assert!(stay(no(&own)) && stay(parse(&own, "n").unwrap()));
    }
}
