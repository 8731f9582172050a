//! What scenario files may say, and how they complain.

use aion_agent::provider::{Message, ModelEvent, ModelRequest, Part, Provider, ToolResult};
use aion_agent::scripted::{Scenario, Scripted};
use aion_core::id::{AgentName, TurnId};
use futures::StreamExt;

use crate::fixture::scripted;

/// A conversation that grows by what the scenario answers.
struct Talk {
    provider: std::sync::Arc<Scripted>,
    scenario: String,
    messages: Vec<Message>,
    turn: u64,
    step: u32,
}

impl Talk {
    fn new(scenario: &str) -> Self {
        let (provider, scenario) = (scripted(scenario), scenario.to_owned());
        Self { provider, scenario, messages: Vec::new(), turn: 0, step: 0 }
    }

    /// A new turn with a text for its opening.
    fn turn(&mut self, text: &str) -> &mut Self {
        (self.turn, self.step) = (self.turn + 1, 0);
        self.given(text)
    }

    fn given(&mut self, text: &str) -> &mut Self {
        self.messages.push(Message::Given { turn: TurnId(self.turn), text: text.to_owned() });
        self
    }

    /// The results of the last answer's calls.
    fn results(&mut self, results: &[(&str, bool)]) -> &mut Self {
        let Some(Message::Answer { parts, .. }) = self.messages.last() else { panic!("no answer") };
        let calls = parts.iter().filter_map(|part| match part {
            Part::Call { call, .. } => Some(call.clone()),
            _ => None,
        });
        let results = calls
            .zip(results)
            .map(|(call, (text, ok))| ToolResult {
                call,
                text: (*text).to_owned(),
                ok: *ok,
                images: Vec::new(),
            })
            .collect();
        self.messages.push(Message::Results { turn: TurnId(self.turn), results });
        self
    }

    /// The answer in one line. It is the same for a provider that knows nothing.
    fn answer(&mut self) -> Result<String, String> {
        let parts = self.ask(&self.provider);
        assert_eq!(parts, self.ask(&scripted(&self.scenario)));
        let parts = parts?;
        let line: Vec<String> = parts
            .iter()
            .map(|part| match part {
                Part::Text { text } | Part::Thought { text, .. } => text.clone(),
                Part::Call { tool, input, .. } => format!("{tool}{input}"),
            })
            .collect();
        let (turn, step) = (TurnId(self.turn), self.step);
        self.messages.push(Message::Answer { turn, step, parts });
        self.step += 1;
        Ok(line.join(" | "))
    }

    fn ask(&self, provider: &Scripted) -> Result<Vec<Part>, String> {
        let mut stream = provider.stream(ModelRequest {
            agent: AgentName::parse("bob").unwrap(),
            model: None,
            turn: TurnId(self.turn),
            step: self.step,
            system: String::new(),
            messages: self.messages.clone(),
            tools: Vec::new(),
            max_tokens: 1,
        });
        let mut parts = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            while let Some(event) = stream.next().await {
                match event.map_err(|error| error.to_string())? {
                    ModelEvent::Text(text) if text.is_empty() => {}
                    ModelEvent::Text(text) => parts.push(Part::Text { text }),
                    ModelEvent::Thought { text, .. } => {
                        parts.push(Part::Text { text });
                    }
                    ModelEvent::ToolCall { call, tool, input } => {
                        parts.push(Part::Call { call, tool, input });
                    }
                    ModelEvent::Usage(_) | ModelEvent::Stop(_) => {}
                }
            }
            Ok(parts)
        })
    }
}

const TWO_REPORTS: &str = r#"
[[agent.bob.rule]]
name = "alice"
when = [{ given = 'alice: done with (?<a>\w+)' }]
call = [{ tool = "Note", input = { what = "{{a}}" } }]

[[agent.bob.rule]]
name = "carol"
when = [{ given = 'carol: done with (?<c>\w+)' }]
say = "Thanks, Carol."

[[agent.bob.rule]]
after = ["alice", "carol"]
say = "Both: {{a}} and {{c}}."
"#;

#[test]
fn it_makes_no_difference_how_mail_was_batched() {
    // In one opening.
    let mut talk = Talk::new(TWO_REPORTS);
    talk.turn("carol: done with css\nalice: done with html");
    assert_eq!(talk.answer().unwrap(), r#"Note{"what":"html"}"#);
    talk.results(&[("noted", true)]);
    assert_eq!(talk.answer().unwrap(), "Thanks, Carol.\n\nBoth: html and css.");

    // In two turns.
    let mut talk = Talk::new(TWO_REPORTS);
    talk.turn("carol: done with css");
    assert_eq!(talk.answer().unwrap(), "Thanks, Carol.");
    talk.turn("alice: done with html");
    assert_eq!(talk.answer().unwrap(), r#"Note{"what":"html"}"#);
    talk.results(&[("noted", true)]);
    assert_eq!(talk.answer().unwrap(), "Both: html and css.");

    // In the middle of one.
    let mut talk = Talk::new(TWO_REPORTS);
    talk.turn("alice: done with html");
    assert_eq!(talk.answer().unwrap(), r#"Note{"what":"html"}"#);
    talk.results(&[("noted", true)]).given("carol: done with css");
    assert_eq!(talk.answer().unwrap(), "Thanks, Carol.\n\nBoth: html and css.");
}

#[test]
fn a_rule_that_waits_for_more_waits() {
    let mut talk = Talk::new(
        r#"
        [[agent.bob.rule]]
        when = [{ given_text = "DONE", times = 3 }, { given_text = "go" }]
        say = "Now."
        "#,
    );
    talk.turn("DONE");
    assert_eq!(talk.answer().unwrap(), "");
    talk.turn("DONE and DONE");
    assert_eq!(talk.answer().unwrap(), "");
    talk.turn("go");
    assert_eq!(talk.answer().unwrap(), "Now.");
}

#[test]
fn what_is_consumed_is_not_matched_again() {
    let mut talk = Talk::new(
        r#"
        [[agent.bob.rule]]
        when = [{ given_text = "ok" }]
        say = "first"
        [[agent.bob.rule]]
        when = [{ given_text = "ok" }]
        say = "second"
        [[agent.bob.rule]]
        when = [{ given_text = "end" }, { seen_text = "ok" }]
        say = "third"
        [[agent.bob.rule]]
        repeat = true
        when = [{ given = 'ping (?<n>\d+)' }]
        call = [{ tool = "Pong", input = { n = "{{n:int}}", at = "{{turn}}.{{step}} {{agent}}" } }]
        [[agent.bob.rule]]
        otherwise = true
        when = [{ given = 'idle (?<who>\w+)' }]
        say = "Noted, {{who}}."
        "#,
    );
    talk.turn("ok");
    assert_eq!(talk.answer().unwrap(), "first");
    talk.turn("idle carol");
    assert_eq!(talk.answer().unwrap(), "Noted, carol.");
    talk.turn("ok, ping 1, ping 2, end");
    assert_eq!(
        talk.answer().unwrap(),
        r#"second

third | Pong{"at":"t3.0 bob","n":1}"#
    );
    talk.results(&[("", true)]);
    assert_eq!(talk.answer().unwrap(), r#"Pong{"at":"t3.1 bob","n":2}"#);
    talk.results(&[("", true)]);
    assert_eq!(talk.answer().unwrap(), "");
    talk.turn("idle alice");
    assert_eq!(talk.answer().unwrap(), "Noted, alice.");
}

#[test]
fn what_nobody_expects_is_told_in_full() {
    let mut talk = Talk::new(
        r#"
        [[agent.bob.rule]]
        name = "begin"
        say = "Ready."
        [[agent.bob.rule]]
        name = "go"
        when = [{ given = 'go (?<n>\d+)' }, { result_text = "x", tool = "Bash", ok = true }]
        [[agent.bob.rule]]
        when = [{ given_text = "twice", times = 2 }]
        after = ["go"]
        "#,
    );
    talk.turn("hello");
    assert_eq!(talk.answer().unwrap(), "Ready.");
    talk.turn("something else");
    assert_eq!(
        talk.answer().unwrap_err(),
        r#"use the model's answer: scenario test.toml, agent "bob": no rule expects what it received
received since its last answer:
  given: "something else"
open rules, and what they wait for:
  2 ("go"): given "go (?<n>\\d+)" and result_text "x"
  3: given_text "twice" (0 of 2 times) and rule 2 ("go")
fired: 1 ("begin")"#
    );
}

#[test]
fn calls_have_to_go_as_the_scenario_says() {
    let scenario = r#"
        [[agent.bob.rule]]
        when = [{ given_text = "go" }]
        call = [
            { tool = "A", expect = 'id (?<id>\d+)' },
            { tool = "B", outcome = "failed" },
            { tool = "C", outcome = "any", expect = "c" },
            { tool = "D" },
        ]
        then = "id {{id}}"
        [[agent.bob.rule]]
        when = [{ result = 'D failed: (?<why>\w+)', ok = false }]
        say = "D: {{why}}"
    "#;
    let after = |results: &[(&str, bool)]| {
        let mut talk = Talk::new(scenario);
        talk.turn("go");
        talk.answer().unwrap();
        talk.results(results);
        let answer = talk.answer();
        answer.map_err(|error| error.lines().next().unwrap_or_default().to_owned())
    };
    let start = r#"use the model's answer: scenario test.toml, agent "bob": "#;
    let error = |text: &str| Err(format!("{start}{text}"));
    let good = [("id 7", true), ("no", false), ("c", true), ("", true)];
    let but = |place: usize, result| {
        let mut results = good;
        results[place] = result;
        results
    };
    assert_eq!(after(&good).unwrap(), "id 7");
    assert_eq!(after(&but(2, ("lost", false))).unwrap(), "id 7");
    assert_eq!(after(&but(3, ("D failed: rain", false))).unwrap(), "D: rain");
    assert_eq!(
        after(&but(3, ("D broke", false))),
        error("a call failed, and no rule expects that it does")
    );
    assert_eq!(
        after(&but(0, ("no id", true))),
        error(r"the result of the A call of rule 1 has to match id (?<id>\d+)")
    );
    assert_eq!(
        after(&but(1, ("yes", true))),
        error("the B call of rule 1 has to fail, and went well")
    );
    assert_eq!(
        after(&but(2, ("x", true))),
        error("the result of the C call of rule 1 has to match c")
    );
}

#[test]
fn a_failure_fires_once_and_what_the_turn_was_given_comes_again() {
    let mut talk = Talk::new(
        r#"
        [[agent.bob.rule]]
        when = [{ given_text = "begin" }]
        call = [{ tool = "A" }]
        [[agent.bob.rule]]
        when = [{ result_text = "a" }]
        fail = "rate_limit"
        [[agent.bob.rule]]
        repeat = true
        when = [{ given_text = "more" }]
        say = "more"
        "#,
    );
    talk.turn("begin");
    assert_eq!(talk.answer().unwrap(), r"A{}");
    talk.results(&[("a", true)]).given("more");
    assert_eq!(talk.answer().unwrap_err(), "call the model: it asks for a pause");
    // Two messages came again, one of them twice: it is answered once.
    talk.turn("more");
    assert_eq!(talk.answer().unwrap(), "more");
}

#[test]
fn a_conversation_of_another_scenario_is_refused() {
    let mut talk = Talk::new("[[agent.bob.rule]]\ncall = [{ tool = \"A\" }]");
    talk.turn("x");
    talk.answer().unwrap();
    talk.results(&[("", true)]);
    talk.scenario = "[[agent.bob.rule]]\ncall = [{ tool = \"B\" }]".to_owned();
    talk.provider = scripted(&talk.scenario);
    assert_eq!(
        talk.answer().unwrap_err(),
        r#"use the model's answer: scenario test.toml, agent "bob": the conversation is not this scenario's: at t1, step 0, the rules call [B], and it has [A]"#
    );
    let mut talk = Talk::new("[[agent.carol.rule]]");
    talk.turn("x");
    assert_eq!(
        talk.answer().unwrap_err(),
        r#"use the model's answer: scenario test.toml, agent "bob": it has no rules (agents: carol)"#
    );
    let mut talk = Talk::new("[[agent.\"*\".rule]]\nsay = \"{{nobody}}\"");
    talk.turn("x");
    assert_eq!(
        talk.answer().unwrap_err(),
        r#"use the model's answer: scenario test.toml, agent "bob": rule 1: {{nobody}} was not captured (captured: agent, step, turn)"#
    );
}

#[test]
fn a_mistake_names_file_agent_and_rule() {
    let check = |rule: &str, expected: &str| {
        let text = format!("[[agent.bob.rule]]\n[[agent.bob.rule]]\nname = \"x\"\n{rule}");
        let error = Scenario::parse("s.toml", &text).unwrap_err().to_string();
        let expected =
            format!(r#"read the scenario s.toml: agent "bob", rule 2 ("x"): {expected}"#);
        assert!(error.starts_with(&expected), "{error}");
    };
    check("sya = 1", "unknown field `sya`, expected one of `name`, `when`, ");
    check("say = 1", "invalid type: integer `1`, expected a string");
    check("when = [{ given = '(' }]", "when: regex parse error");
    check("when = [{ given = 'a', result = 'b' }]", "when: a condition has exactly one of given,");
    check(
        "when = [{ given = 'a', ok = true }]",
        "when: tool and ok belong to result, not to given",
    );
    check("when = [{ given = 'a', times = 0 }]", "when: times has to be at least 1");
    check("after = ['y']", "after: no rule is called \"y\"");
    check("after = ['x']", "after: \"x\" is the rule itself");
    check("repeat = true", "a rule that repeats needs a condition on given or result");
    check("repeat = true\notherwise = true", "repeat and otherwise exclude each other");
    check("fail = 'panic'\nsay = 'x'", "a rule that fails says and calls nothing");
    check("fail = 'oops'", "unknown variant `oops`, expected one of `panic`, ");
    check("retry_after_ms = 1", "retry_after_ms belongs to fail");
    check("then = 'x'", "then follows calls, and there are none");
    check("call = [{ tool = 'A', input = 1 }]", "call: the input of A has to be a table");
    check("call = [{ tool = 'A', expect = '(' }]", "expect: regex parse error");
    let twice = "[[agent.bob.rule]]\nname = \"x\"\n[[agent.bob.rule]]\nname = \"x\"";
    let error = Scenario::parse("s.toml", twice).unwrap_err().to_string();
    assert!(error.ends_with("another rule of the agent has this name"), "{error}");
    let error = Scenario::parse("s.toml", "agnet = 1").unwrap_err().to_string();
    assert!(error.starts_with("read the scenario s.toml: TOML parse error at line 1"), "{error}");
}
