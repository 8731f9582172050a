//! A provider that plays a scenario file: who says what and calls which tool, when it received what.
//!
//! It knows no state but the conversation it is given: which rules have fired is found out anew for
//! every request, so a crash of the house changes nothing. It never guesses: what no rule expects
//! is an error that says what came, what was expected and which rules are open.
//!
//! # The file
//!
//! ```toml
//! about = "A lead and one teammate build a page"
//!
//! [[agent.team-lead.rule]]
//! name = "begin"
//! when = [{ given = 'Build (?<what>\w+)' }]
//! think = "One task will do."
//! say = "I split the work."
//! call = [{ tool = "TaskCreate", input = { subject = "{{what}}" }, expect = '#(?<task>\d+)' }]
//! then = "Task {{task}} is on the board."
//!
//! [[agent.team-lead.rule]]
//! when = [{ given_text = "page is done", times = 2 }]
//! say = "Both pages are done."
//!
//! [[agent.team-lead.rule]]
//! otherwise = true
//! when = [{ given = "idle" }]
//! say = "Noted."
//! ```
//!
//! Agents are named as in the team; `"*"` stands for every agent that is not named.
//!
//! # When a rule fires
//!
//! What an agent receives lies on its *tape*: each text it was given and each result of its tools,
//! from the beginning of the conversation. A rule may fire when *every* condition of its `when`
//! finds what it looks for on the tape, and every rule named in its `after` has fired. It makes no
//! difference whether two messages came in one turn's opening, in two turns, or in the middle of
//! one: a message that came early waits on the tape for its rule.
//!
//! A rule that fires *consumes* exactly the characters that its conditions matched. No condition
//! matches them again, so two rules that look for the same words need them twice, while two rules
//! that look for different words of one message do not disturb each other. A greedy pattern such as
//! `(?s)done.*` takes everything up to the end; write patterns no wider than needed.
//!
//! | Condition | Looks at | Consumes |
//! |---|---|---|
//! | `given`, `given_text` | texts the agent was given: mail, task offers | yes |
//! | `result`, `result_text` | results of its tools; `tool` and `ok` narrow it | yes |
//! | `seen`, `seen_text` | both, consumed or not | no |
//!
//! `given`, `result` and `seen` hold a regular expression (Rust syntax), those with `_text` plain
//! text. `times = 3` wants three matches. Named groups are captured, and `{{name}}` puts them into
//! later (and the same rule's) `say`, `think`, `then` and call inputs; `{{name:int}}` as a whole
//! string becomes a number. `{{agent}}` is the agent's name, `{{turn}}` and `{{step}}` where it is.
//!
//! A rule fires once, unless `repeat = true`: then again for each further match. Of several rules
//! that may fire the first in the file does. If it calls no tool, the next one fires in the same
//! answer, until one calls tools or none is left, so that nothing stays behind when the turn ends.
//!
//! # When none fires
//!
//! - The answer is `then` of the rules whose calls have just returned, or nothing at all, if all
//!   that came is results of calls that went as expected.
//! - A text of which a part is looked for by a rule that is still open is expected: the agent waits,
//!   and says nothing.
//! - Otherwise the first rule with `otherwise = true` answers whose conditions match what is new.
//!   Such rules fire only here, any number of times, and consume nothing.
//! - Everything else is an error.
//!
//! # Calls
//!
//! `expect` is a regular expression that the result has to match; its groups are captured.
//! `outcome` is `"ok"`, `"failed"` or `"any"`; without it a call that failed is an error unless a
//! rule looks for its result.
//!
//! # Failing on purpose
//!
//! `fail = "panic"` crashes the agent in its own task; `"fault"`, `"unavailable"`, `"rate_limit"`,
//! `"login"` and `"broken"` are answers that do not come, with `retry_after_ms` where it applies;
//! `"hang"` waits until the turn is interrupted. Such a rule fires alone and before all others.
//! That it has fired shows in the conversation: the turn that it ended is followed by another one
//! without an answer between them, so a rule that fires once fails once, also over restarts. What
//! such a turn was last given is then taken off the tape, because the mail comes again.
//!
//! `delay_ms` lets the answer wait, for a watcher's sake.

mod matcher;
mod player;
mod scenario;
mod template;

pub use self::player::Scripted;
pub use self::scenario::{Scenario, ScenarioError};
