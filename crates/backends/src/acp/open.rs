//! From an agent that was greeted to one with an open session, with its tools, its mode and its
//! model; no turn is run here.

use std::sync::Arc;

use aion_core::agent::PermissionMode;
use aion_core::transcript::Item;
use serde_json::{Value, json};

use super::exchange::{CallError, Exchange};
use super::greet::{Failure, Fault, Greeted};
use super::memory::Kept;
use super::options::{Options, Setting, Way, in_words};
use super::profile::{McpStart, McpTransport, Quirk, TEAM_SERVER};
use super::seat::Seat;
use super::usage::Meter;
use super::words;

/// An agent with an open session.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) exchange: Exchange,
    /// The session, by the agent's own id.
    pub(super) session: String,
    /// Whether it takes text in the middle of a turn.
    pub(super) steers: bool,
    pub(super) options: Options,
    /// The role that it was told; none where that is not known.
    pub(super) role: Option<String>,
    /// What its next prompt begins with.
    pub(super) notes: Vec<String>,
    /// What it used.
    pub(super) meter: Meter,
}

/// An open session, before anything is set in it.
struct Session {
    id: String,
    options: Options,
    role: Option<String>,
    notes: Vec<String>,
}

impl Seat {
    /// Opens the session of before, or a new one that is told what was said before.
    pub(super) async fn open(&self) -> Result<Live, Failure> {
        let history = self.host.history().await;
        let history = history.map_err(|error| Failure::Other(error.to_string()))?;
        if let Some(kept) = self.recall().await {
            match self.start(Some(&kept), &history).await {
                Err(Failure::Lost(why)) => {
                    tracing::info!(slot = %self.slot, %why, "a session was not opened again");
                }
                opened => return opened,
            }
        }
        self.start(None, &history).await
    }

    /// The session of before, where it can be one of this agent.
    async fn recall(&self) -> Option<Kept> {
        let (memory, of) = (Arc::clone(&self.memory), self.conversation.clone());
        let recalling = move || memory.recall(&of.0, &of.1);
        let kept = tokio::task::spawn_blocking(recalling).await.ok()??;
        let profile = &self.launch.profile;
        let fits = kept.agent == profile.id
            && kept.workspace == self.workspace
            && !profile.quirks.contains(&Quirk::ForgetsSessions);
        fits.then_some(kept)
    }

    async fn keep(&self, session: &str) {
        let kept = Kept {
            agent: self.launch.profile.id.clone(),
            workspace: self.workspace.clone(),
            session: session.to_owned(),
        };
        let (memory, of) = (Arc::clone(&self.memory), self.conversation.clone());
        let keeping = move || memory.keep(&of.0, &of.1, &kept);
        // Without it the next start tells a new session what was said.
        if let Ok(Err(error)) = tokio::task::spawn_blocking(keeping).await {
            tracing::warn!(slot = %self.slot, %error, "the session of an agent was not kept");
        }
    }

    async fn start(&self, kept: Option<&Kept>, history: &[Item]) -> Result<Live, Failure> {
        let model = self.model.as_deref();
        let start = Greeted::start(&self.launch, model, &self.workspace, self.house());
        let mut greeted = start.await?;
        match self.settle(&mut greeted, kept, history).await {
            Ok(Session { id, options, role, notes }) => Ok(Live {
                session: id,
                steers: greeted.greeting.steers(),
                exchange: greeted.exchange,
                options,
                role,
                notes,
                meter: Meter::default(),
            }),
            Err(fault) => Err(greeted.fail(fault).await),
        }
    }

    async fn settle(
        &self,
        greeted: &mut Greeted<'_>,
        kept: Option<&Kept>,
        history: &[Item],
    ) -> Result<Session, Fault> {
        let servers = self.servers(greeted)?;
        let again = match kept {
            Some(kept) => self.open_again(greeted, kept, &servers, history).await?,
            None => None,
        };
        let mut session = match again {
            Some(session) => session,
            None => self.open_new(greeted, &servers, history).await?,
        };
        let (exchange, id) = (&mut greeted.exchange, session.id.clone());
        self.choose_mode(exchange, &id, &mut session.options, self.mode).await?;
        self.choose_model(exchange, &id, &mut session.options).await?;
        if self.launch.profile.mcp_start == McpStart::Eager
            && let Some(connection) = &self.connection
            && !connection.is_ready_within(self.limits.tools).await
        {
            let limit = self.limits.tools.as_secs();
            return Err(Fault::Said(format!(
                "the agent did not begin the MCP server of its team's tools within {limit} s"
            )));
        }
        self.keep(&session.id).await;
        Ok(session)
    }

    async fn open_new(
        &self,
        greeted: &mut Greeted<'_>,
        servers: &Value,
        history: &[Item],
    ) -> Result<Session, Fault> {
        let mut params = json!({ "cwd": self.workspace, "mcpServers": servers });
        let role = words::role(&self.system, &self.launch.profile);
        let knows_roles = greeted.greeting.can("/sessionCapabilities/systemPrompt");
        if knows_roles {
            let content = words::blocks(std::slice::from_ref(&role));
            params["systemPrompt"] = json!({ "mode": "append", "content": content });
        }
        let opened = greeted.call_let_in("session/new", &params).await?;
        let id = opened["sessionId"].as_str().filter(|id| !id.is_empty());
        let id =
            id.ok_or_else(|| Fault::Said("the agent opened a session without an id".into()))?;
        Ok(Session {
            id: id.to_owned(),
            options: Options::read(&opened),
            role: knows_roles.then_some(role),
            notes: words::earlier(history).into_iter().collect(),
        })
    }

    /// Opens the session of before; none where the agent cannot, or where it is in doubt.
    async fn open_again(
        &self,
        greeted: &mut Greeted<'_>,
        kept: &Kept,
        servers: &Value,
        history: &[Item],
    ) -> Result<Option<Session>, Fault> {
        let params =
            json!({ "sessionId": kept.session, "cwd": self.workspace, "mcpServers": servers });
        let resumes = greeted.greeting.can("/sessionCapabilities/resume");
        let loads = greeted.greeting.can("/loadSession");
        for (method, can) in [("session/resume", resumes), ("session/load", loads)] {
            if !can {
                continue;
            }
            let opened = match greeted.call_let_in(method, &params).await {
                Ok(opened) => opened,
                Err(Fault::Call(_, CallError::Refused(refusal))) => {
                    tracing::info!(slot = %self.slot, %refusal, method, "it was refused");
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            // What was said before is in our transcript: its replay is for nobody.
            let (quiet, most) = (self.limits.drain, self.limits.drain_at_most);
            let replayed = greeted.exchange.forget()
                + greeted.exchange.drain(quiet, most).await.map_err(|e| Fault::Call(method, e))?;
            // A load that has nothing to show did not find the session, whatever it says.
            if method == "session/load" && replayed == 0 && !history.is_empty() {
                tracing::info!(slot = %self.slot, "an agent loaded a session with nothing in it");
                continue;
            }
            return Ok(Some(Session {
                id: kept.session.clone(),
                options: Options::read(&opened),
                role: None,
                notes: Vec::new(),
            }));
        }
        Ok(None)
    }

    /// The servers of its team's tools: one, by the way that its profile says.
    fn servers(&self, greeted: &Greeted<'_>) -> Result<Value, Fault> {
        let Some(connection) = &self.connection else { return Ok(json!([])) };
        let pair = |(name, value): (&str, String)| json!({ "name": name, "value": value });
        match self.launch.profile.mcp {
            McpTransport::Stdio => {
                let environment: Vec<Value> = connection.environment().map(pair).into();
                let bridge = &self.bridge;
                Ok(json!([{
                    "name": TEAM_SERVER,
                    "command": bridge.program,
                    "args": bridge.arguments,
                    "env": environment,
                }]))
            }
            McpTransport::Http if !greeted.greeting.can("/mcpCapabilities/http") => {
                Err(Fault::Said("the agent takes no MCP servers by HTTP".to_owned()))
            }
            McpTransport::Http => {
                let bearer = format!("Bearer {}", connection.token().reveal());
                Ok(json!([{
                    "type": "http",
                    "name": TEAM_SERVER,
                    "url": format!("http://127.0.0.1:{}/mcp", connection.port()),
                    "headers": [pair(("Authorization", bearer))],
                }]))
            }
        }
    }

    /// Puts a session into the agent's counterpart of a mode of ours.
    pub(super) async fn choose_mode(
        &self,
        exchange: &mut Exchange,
        session: &str,
        options: &mut Options,
        mode: PermissionMode,
    ) -> Result<(), Fault> {
        let Some(name) = self.launch.profile.modes.of(mode) else { return Ok(()) };
        self.choose(exchange, session, options, Setting::Mode, name).await
    }

    async fn choose_model(
        &self,
        exchange: &mut Exchange,
        session: &str,
        options: &mut Options,
    ) -> Result<(), Fault> {
        let by_protocol = self.launch.profile.model_args.is_empty();
        let Some(model) = self.model.as_deref().filter(|_| by_protocol) else { return Ok(()) };
        self.choose(exchange, session, options, Setting::Model, model).await
    }

    async fn choose(
        &self,
        exchange: &mut Exchange,
        session: &str,
        options: &mut Options,
        setting: Setting,
        value: &str,
    ) -> Result<(), Fault> {
        let (method, mut params) = match options.way(setting, value) {
            Way::IsSet => return Ok(()),
            Way::Request { method, params } => (method, params),
            Way::None { offered } => {
                let (word, offered) = (setting.word(), in_words(&offered));
                return Err(Fault::Said(format!("the agent has no {word} {value:?}; {offered}")));
            }
        };
        params["sessionId"] = json!(session);
        let answer = exchange.call(method, &params, self.limits.set).await;
        let answer = answer.map_err(|error| Fault::Call(method, error))?;
        options.learn(&answer);
        options.note(setting, value);
        Ok(())
    }
}
