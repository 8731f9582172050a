//! One prompt: what its words ask for.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::{Agent, eprintln_flush};
use crate::wire;

/// Pieces of a flood, and how many calls one has.
const PIECE: usize = 16 * 1024;
const CALLS: usize = 10_000;
/// How long what comes too late waits.
const TOO_LATE: Duration = Duration::from_millis(300);

/// A prompt that is being answered.
struct Turn<'a> {
    agent: &'a mut Agent,
    id: &'a Value,
    session: String,
    cancelled: bool,
    steered: Vec<String>,
}

/// Answers a prompt.
pub(crate) fn run(agent: &mut Agent, id: &Value, params: &Value) {
    let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
    let texts: Vec<&str> = params["prompt"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|block| block["text"].as_str())
        .collect();
    let before = format!("{}\n{}", agent.role, agent.sessions.told(&session));
    let mail = texts.last().copied().unwrap_or_default().to_owned();
    let beside = format!("{before}\n{}", texts[..texts.len().saturating_sub(1)].join("\n"));
    if !(agent.odd.is("forgets-refused") && mail.contains("refuse ")) {
        agent.sessions.tell(&session, &texts.join("\n"));
    }
    let mut turn = Turn { agent, id, session, cancelled: false, steered: Vec::new() };
    turn.obey(&mail, &beside);
}

impl Turn<'_> {
    /// Does what the words of a prompt ask for. `known` is what it was told apart from them.
    fn obey(&mut self, mail: &str, known: &str) {
        let after = |word: &str| mail.split_once(word).map(|(_, rest)| rest.trim().to_owned());
        if let Some(needle) = after("recall ") {
            let word = if known.contains(&needle) { "known" } else { "unknown" };
            return self.say_and_end(&format!("{needle} is {word}"));
        }
        if let Some(word) = after("mail ") {
            let word: String = word.chars().take_while(char::is_ascii_alphanumeric).collect();
            return self.say_and_end(&format!("mail {word}"));
        }
        if let Some(code) = after("refuse ").and_then(|code| code.parse().ok()) {
            return wire::refuse(self.id, code, "the model said no");
        }
        match mail {
            mail if mail.contains("say hello") => self.say_and_end("hello"),
            mail if mail.contains("hang") => self.hang(),
            mail if mail.contains("stumble") && self.agent.sessions.stumbles() => self.crash(),
            mail if mail.contains("stumble") => self.say_and_end("back on my feet"),
            mail if mail.contains("crash") => self.crash(),
            mail if mail.contains("work") => self.work(),
            mail if mail.contains("team tool") => self.team_tool(),
            mail if mail.contains("be steered") => self.be_steered(),
            mail if mail.contains("mode?") => {
                let mode = self.agent.mode().to_owned();
                self.say_and_end(&mode);
            }
            mail => self.misbehave(mail),
        }
    }

    fn say(&self, text: &str) {
        wire::say(&self.session, text);
    }

    fn end(&self, reason: &str) {
        self.agent.wire.answer(self.id, &json!({ "stopReason": reason }));
    }

    fn say_and_end(&self, text: &str) {
        self.say(text);
        self.end("end_turn");
    }

    fn update(&self, update: &Value) {
        wire::update(&self.session, update);
    }

    /// Waits for the answer to a request.
    fn wait(&mut self, request: &Value) -> Value {
        while let Some(message) = self.agent.wire.next() {
            if message["id"] == *request && message["method"].is_null() {
                return message;
            }
            self.hear(&message);
        }
        std::process::exit(0);
    }

    fn hear(&mut self, message: &Value) {
        match message["method"].as_str() {
            Some("session/cancel") => self.cancelled = true,
            Some("_session/steering") => {
                let text = &message["params"]["prompt"][0]["text"];
                self.steered.extend(text.as_str().map(str::to_owned));
                self.agent.wire.answer(&message["id"], &json!({ "outcome": "injected" }));
            }
            Some(method) => wire::refuse(&message["id"], -32_601, method),
            None => {}
        }
    }

    fn hang(&mut self) {
        while !self.cancelled || self.agent.odd.is("ignores-cancel") {
            let Some(message) = self.agent.wire.next() else { return };
            self.hear(&message);
        }
        if self.agent.odd.is("asks-after-cancel") {
            let outcome = self.ask(&json!({ "toolCallId": "late", "title": "One more thing" }));
            self.say(&format!("the answer was {}", outcome["outcome"]));
        }
        self.end(if self.agent.odd.is("cancel-is-end") { "end_turn" } else { "cancelled" });
    }

    fn crash(&self) {
        self.say("I feel");
        eprintln_flush("thread 'main' has run out of ideas");
        std::process::exit(3);
    }

    fn work(&mut self) {
        let input = json!({ "command": "make all" });
        let call = json!({
            "sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Build it",
            "kind": "execute", "status": "pending", "rawInput": input,
        });
        self.update(&call);
        let outcome =
            self.ask(&json!({ "toolCallId": "call-1", "title": "Build it", "rawInput": input }));
        self.conclude(&outcome);
    }

    /// Asks as codex does: without a title and without an input.
    fn team_tool(&mut self) {
        self.update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "team-1",
            "title": "mcp.team.SendMessage", "status": "in_progress",
        }));
        let outcome = self.ask(&json!({ "toolCallId": "team-1", "_meta": { "mcp": true } }));
        self.update(&json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "team-1", "status": "completed",
            "rawOutput": { "ok": true },
        }));
        self.say_and_end(&format!("the answer was {}", outcome["optionId"]));
    }

    fn be_steered(&mut self) {
        self.update(&json!({
            "sessionUpdate": "tool_call", "toolCallId": "look", "title": "Look",
            "kind": "read", "status": "completed",
        }));
        while self.steered.is_empty() {
            let Some(message) = self.agent.wire.next() else { return };
            self.hear(&message);
        }
        let text = self.steered.join(" ");
        self.say_and_end(&format!("steered: {text}"));
    }

    /// Asks for a permission; the outcome.
    fn ask(&mut self, call: &Value) -> Value {
        let session = self.session.clone();
        self.ask_in(&session, call)
    }

    fn ask_in(&mut self, session: &str, call: &Value) -> Value {
        let request = self.send_ask(session, call);
        self.wait(&request)["result"]["outcome"].clone()
    }

    fn send_ask(&mut self, session: &str, call: &Value) -> Value {
        let kinds = ["allow_always", "allow_once", "reject_once"];
        let options = kinds.map(|kind| json!({ "optionId": kind, "name": kind, "kind": kind }));
        let params = json!({ "sessionId": session, "toolCall": call, "options": options });
        self.agent.wire.request("session/request_permission", &params)
    }

    /// Ends a call by what was decided about it.
    fn conclude(&mut self, outcome: &Value) {
        if outcome["outcome"] == "cancelled" {
            return self.hang();
        }
        let allowed = outcome["optionId"] == "allow_once";
        let (status, text, said) = if allowed {
            ("completed", "built", "work: allowed")
        } else {
            ("failed", "permission denied", "work: denied")
        };
        let content = json!([{ "type": "content", "content": { "type": "text", "text": text } }]);
        self.update(&json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "call-1", "status": status,
            "content": content,
        }));
        self.say_and_end(said);
    }

    fn misbehave(&mut self, mail: &str) {
        match mail {
            "huge line" => {
                wire::huge_line();
                self.say_and_end("after the line");
            }
            "flood of words" => {
                while !self.cancelled {
                    self.say(&"word ".repeat(PIECE / 5));
                    if let Some(message) = self.agent.wire.waiting() {
                        self.hear(&message);
                    }
                }
                self.end("cancelled");
            }
            "flood of calls" => {
                for number in 0..CALLS {
                    let call = format!("call-{number}");
                    self.update(&json!({ "sessionUpdate": "tool_call", "toolCallId": call, "status": "completed" }));
                }
                self.hang();
            }
            "bad bytes" => {
                let before =
                    br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":""#;
                let after = br#"","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"caf"#;
                let line = [before, self.session.as_bytes(), after, b"\xe9\"}}}}"].concat();
                wire::line(&line);
                self.end("end_turn");
            }
            "noise" => self.noise(),
            "unknown stop" => {
                self.say("something broke");
                self.end("error");
            }
            "no stop" => self.agent.wire.answer(self.id, &json!({})),
            "silence" => self.end("end_turn"),
            "late words" => {
                self.end("end_turn");
                self.say("late words");
            }
            "too late words" => {
                self.say_and_end("in time");
                thread::sleep(TOO_LATE);
                self.say("too late words");
            }
            "two ends" => {
                self.say_and_end("one end");
                self.end("refusal");
            }
            "child" => self.leave_a_child(),
            "strange requests" => self.strange_requests(),
            "no title" => {
                self.update(&json!({
                    "sessionUpdate": "tool_call", "toolCallId": "call-1", "title": "Remove all",
                    "kind": "execute", "rawInput": { "command": ["bash", "-lc", "rm -r build"] },
                }));
                let outcome = self.ask(&json!({ "toolCallId": "call-1", "title": null }));
                self.conclude(&outcome);
            }
            "no call" => {
                let outcome = self.ask(&json!({ "title": "something" }));
                self.say_and_end(&format!("the answer was {}", outcome["optionId"]));
            }
            "another session" => {
                let call = json!({ "toolCallId": "call-1", "title": "Deep work", "kind": "other" });
                let outcome = self.ask_in("a-session-within", &call);
                self.conclude(&outcome);
            }
            "open call" => {
                self.update(&json!({
                    "sessionUpdate": "tool_call", "toolCallId": "open", "title": "Forever",
                    "status": "in_progress",
                }));
                self.say_and_end("done, I think");
            }
            "ends before the answer" => {
                let session = self.session.clone();
                self.send_ask(&session, &json!({ "toolCallId": "call-1", "title": "Build it" }));
                self.say_and_end("never mind");
            }
            "deaf" => self.be_deaf(),
            other => self.say_and_end(&format!("I do not understand {other:?}")),
        }
    }

    fn noise(&self) {
        for line in
            ["npm warn deprecated", "42", "null", "\"text\"", "[1,2]", "{}", "{\"jsonrpc\":"]
        {
            wire::line(line.as_bytes());
        }
        wire::line(format!("{{\"jsonrpc\":\"2.0\",\"x\":{}", "[".repeat(200_000)).as_bytes());
        wire::send(&json!({ "jsonrpc": "2.0", "id": 99_999, "result": {} }));
        wire::send(&json!({ "jsonrpc": "2.0", "method": "_news", "params": [] }));
        for update in [
            json!({ "sessionUpdate": "a_kind_of_2031", "payload": [1] }),
            json!({ "sessionUpdate": 7 }),
            json!({ "sessionUpdate": "tool_call" }),
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": null, "status": "completed" }),
            json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "echo" } }),
            json!({ "sessionUpdate": "plan", "entries": null }),
        ] {
            self.update(&update);
        }
        self.say_and_end("after the noise");
    }

    fn leave_a_child(&self) {
        let child = Command::new("setsid")
            .args(["sleep", "600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => self.say_and_end(&format!("child {}", child.id())),
            Err(error) => self.say_and_end(&format!("no child: {error}")),
        }
    }

    fn strange_requests(&mut self) {
        let session = json!(self.session);
        let mut said = Vec::new();
        for method in ["fs/read_text_file", "craft/drainMidTurnQueue", "elicitation/create"] {
            let request = self.agent.wire.request(method, &json!({ "sessionId": session }));
            let answer = self.wait(&request);
            let word = answer["error"]["code"].as_i64().map(|code| code.to_string());
            said.push(word.unwrap_or_else(|| answer["result"]["action"].to_string()));
        }
        self.say_and_end(&said.join(" "));
    }

    /// Asks, and does not read the answers: its input has not been read since this prompt.
    fn be_deaf(&mut self) {
        for _ in 0..20_000 {
            self.agent.wire.request("fs/read_text_file", &json!({ "path": "x".repeat(64) }));
        }
        wire::never();
    }
}
