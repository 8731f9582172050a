//! What it answers between its turns.

use std::io::Write;

use serde_json::{Value, json};

use crate::Odd;
use crate::sessions::Sessions;
use crate::turn;
use crate::wire::{self, Wire};

/// The agent.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) odd: Odd,
    pub(crate) wire: Wire,
    pub(crate) sessions: Sessions,
    mode: String,
    let_in: bool,
    /// The role that it was given apart from its prompts.
    pub(crate) role: String,
}

impl Agent {
    pub(crate) fn new(odd: Odd, wire: Wire) -> Self {
        let sessions = Sessions::open();
        let let_in = !odd.is("wants-login");
        let (mode, role) = ("free".to_owned(), String::new());
        Self { odd, wire, sessions, mode, let_in, role }
    }

    /// Serves until its input ends.
    pub(crate) fn serve(&mut self) {
        if self.odd.is("exits") {
            eprintln_flush("cannot find module 'left-pad'");
            std::process::exit(7);
        }
        if self.odd.is("stderr-flood") {
            for number in 0..200_000 {
                eprintln_flush(&format!("warning {number}: all is well, as far as we know"));
            }
        }
        while let Some(message) = self.wire.next() {
            self.hear(&message);
        }
    }

    fn hear(&mut self, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str() {
            Some("initialize") => self.greet(id),
            Some("authenticate") => {
                self.let_in = !self.odd.is("never-lets-in");
                self.wire.answer(id, &json!({}));
            }
            Some("session/new") => self.open(id, params),
            Some(method @ ("session/load" | "session/resume")) => {
                let replays = method == "session/load";
                self.open_again(id, params, replays);
            }
            Some("session/set_mode") => {
                params["modeId"].as_str().unwrap_or_default().clone_into(&mut self.mode);
                self.wire.answer(id, &json!({}));
            }
            Some("session/set_model") => self.wire.answer(id, &Value::Null),
            Some("session/prompt") => turn::run(self, id, params),
            Some(method) if !id.is_null() => {
                wire::refuse(id, -32_601, &format!("{method} is unknown"));
            }
            // A late answer, or news: nobody waits for it.
            Some(_) | None => {}
        }
    }

    fn greet(&mut self, id: &Value) {
        if self.odd.is("silent") {
            return;
        }
        if self.odd.is("garbage") {
            wire::line(b"Error: something is on fire");
            return;
        }
        if self.odd.is("closes-stdout") {
            let nowhere = std::fs::File::create("/dev/null").ok();
            // What it says from here on is heard by nobody.
            let closed = nowhere.is_some_and(|file| nix::unistd::dup2_stdout(file).is_ok());
            assert!(closed, "standard output stayed open");
        }
        if self.odd.is("endless-line") {
            wire::endless_line();
            return;
        }
        if self.odd.is("wrong-ids") {
            self.wire.answer(&json!(4_711), &json!({ "protocolVersion": 1 }));
            return;
        }
        let version = if self.odd.is("version-2") { 2 } else { 1 };
        let mut abilities =
            json!({ "promptCapabilities": {}, "mcpCapabilities": { "http": true } });
        let mut session = json!({});
        if self.odd.is("loads") {
            abilities["loadSession"] = json!(true);
        }
        if self.odd.is("resumes") {
            session["resume"] = json!({});
        }
        if self.odd.is("takes-roles") {
            session["systemPrompt"] = json!({ "override": {} });
        }
        abilities["sessionCapabilities"] = session;
        let ways = if self.odd.is("has-a-way-in") { json!([{ "id": "key" }]) } else { json!([]) };
        let mut greeting = json!({
            "protocolVersion": version,
            "agentCapabilities": abilities,
            "authMethods": ways,
            "agentInfo": { "name": "fake", "title": "Fake", "version": "1.2.3" },
        });
        if self.odd.is("steers") {
            greeting["_meta"] = json!({ "steering": { "supported": true } });
        }
        self.wire.answer(id, &greeting);
    }

    fn open(&mut self, id: &Value, params: &Value) {
        if !self.let_in {
            wire::refuse(id, -32_000, "Authentication required");
            return;
        }
        if self.odd.is("never-opens") {
            return;
        }
        if self.odd.is("no-session-id") {
            self.wire.answer(id, &json!({ "modes": null }));
            return;
        }
        let session = self.sessions.begin();
        let role = &params["systemPrompt"]["content"][0]["text"];
        role.as_str().unwrap_or_default().clone_into(&mut self.role);
        if self.odd.is("early-updates") {
            wire::say(&session, "I was here before you.");
            let commands =
                json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] });
            wire::update(&session, &commands);
            wire::say("a-session-that-is-not", "Nobody knows me.");
        }
        let mut opened = self.state();
        opened["sessionId"] = json!(session);
        self.wire.answer(id, &opened);
    }

    fn open_again(&mut self, id: &Value, params: &Value, replays: bool) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if self.odd.is("dies-when-it-resumes") {
            std::process::exit(9);
        }
        let Some(told) = self.sessions.again(&session) else {
            wire::refuse(id, -32_002, "there is no such session");
            return;
        };
        if replays && !self.odd.is("loads-nothing") {
            for text in told {
                let content = json!({ "type": "text", "text": text });
                let chunk = json!({ "sessionUpdate": "user_message_chunk", "content": content });
                wire::update(&session, &chunk);
                wire::say(&session, "I said something about it.");
            }
        }
        self.wire.answer(id, &self.state());
    }

    /// The mode that it is in.
    pub(crate) fn mode(&self) -> &str {
        &self.mode
    }

    fn state(&self) -> Value {
        let modes = if self.odd.is("no-modes") {
            Value::Null
        } else {
            json!({
                "currentModeId": self.mode,
                "availableModes": [{ "id": "free" }, { "id": "ask" }, { "id": "plan" }],
            })
        };
        let models = json!({ "currentModelId": "small", "availableModels": [{ "modelId": "small" }, { "modelId": "large" }] });
        json!({ "modes": modes, "models": models })
    }
}

pub(crate) fn eprintln_flush(line: &str) {
    // Who does not read our errors misses them.
    let _ = writeln!(std::io::stderr(), "{line}");
}
