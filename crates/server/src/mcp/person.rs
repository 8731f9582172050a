//! The person's own tools in the words of MCP: a program of theirs looks at their teams and writes
//! to them. It never decides a request: what waits for a person is decided by the person.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use aion_core::agent::Agent;
use aion_core::command::{Command, SendMessage};
use aion_core::message::{Recipient, Urgency};
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities,
    ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::answers::{failed, listed};
use super::frames::FRAME_BYTES;
use crate::app::App;
use crate::auth::{Principal, Via};
use crate::convert::{approvals, tasks, team_response};
use crate::error::Failure;
use crate::view;

/// How long a call is waited for.
const CALL_TIME: Duration = Duration::from_mins(1);

/// The person's tools at a path of the daemon.
pub(crate) fn service(app: App) -> StreamableHttpService<Person, NeverSessionManager> {
    // Host, Origin and credential are checked by the gate, more narrowly than the library does.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(FRAME_BYTES as usize)
        .disable_allowed_hosts()
        .enforce_origin_validation();
    let made = move || Ok(Person { app: app.clone() });
    StreamableHttpService::new(made, Arc::new(NeverSessionManager::default()), config)
}

/// The tools of whoever the credential of a request belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    app: App,
}

impl ServerHandler for Person {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("aion", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "Teams of coding agents that work for the person you talk with. aion_list_teams says \
             which there are, aion_show_team how one stands, aion_send_message writes to a member. \
             What waits for the person's decision is shown, and decided by the person alone."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(listed(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let principal = context
            .extensions
            .get::<Parts>()
            .and_then(|parts| parts.extensions.get::<Principal>())
            .filter(|principal| principal.via == Via::Bearer)
            .cloned()
            .ok_or_else(|| ErrorData::invalid_request("a token is needed, not a session", None))?;
        let input = Value::Object(request.arguments.unwrap_or_default());
        let answered = timeout(CALL_TIME, self.call(&principal, &request.name, input)).await;
        Ok(match answered {
            Ok(Ok(text)) => CallToolResult::success(vec![ContentBlock::text(text)]).into(),
            Ok(Err(why)) => failed(why),
            Err(_) => failed("there is no answer yet; look, before you call again".to_owned()),
        })
    }
}

impl Person {
    async fn call(
        &self,
        principal: &Principal,
        name: &str,
        input: Value,
    ) -> Result<String, String> {
        match name {
            "aion_list_teams" => {
                let Nothing {} = read(input)?;
                self.list_teams(principal).await
            }
            "aion_show_team" => self.show_team(principal, &read::<OneTeam>(input)?.team).await,
            "aion_list_requests" => {
                let Nothing {} = read(input)?;
                self.list_requests(principal).await
            }
            "aion_send_message" => self.send_message(principal, read(input)?).await,
            other => {
                let known: Vec<Cow<'static, str>> = tools().into_iter().map(|t| t.name).collect();
                Err(format!("there is no tool {other:?}; there is: {}", known.join(", ")))
            }
        }
    }

    async fn list_teams(&self, principal: &Principal) -> Result<String, String> {
        let rows = self.app.teams(principal).await.map_err(why)?;
        let teams: Vec<Value> = rows
            .into_iter()
            .map(|row| {
                json!({
                    "team": row.team.as_str(), "name": row.name, "workspace": row.workspace,
                    "ended": row.ended, "members": row.members, "tasks_open": row.tasks_open,
                    "tasks_completed": row.tasks_done, "requests_open": row.requests_open,
                })
            })
            .collect();
        text(&teams)
    }

    async fn show_team(&self, principal: &Principal, id: &str) -> Result<String, String> {
        let team = self.app.team(principal, id).await.map_err(why)?;
        let now = team.now();
        let shown = self
            .app
            .read(&team, move |team| {
                json!({
                    "team": team_response(team), "tasks": tasks(team),
                    "requests": view::requests(team, now),
                })
            })
            .await
            .map_err(why)?;
        text(&shown)
    }

    async fn list_requests(&self, principal: &Principal) -> Result<String, String> {
        let mut all = Vec::new();
        for row in self.app.teams(principal).await.map_err(why)? {
            if row.ended || row.requests_open == 0 {
                continue;
            }
            let team = self.app.team(principal, row.team.as_str()).await.map_err(why)?;
            let now = team.now();
            all.extend(self.app.read(&team, move |t| approvals(t, now)).await.map_err(why)?);
        }
        text(&all)
    }

    async fn send_message(&self, principal: &Principal, call: Send) -> Result<String, String> {
        let team = self.app.team(principal, &call.team).await.map_err(why)?;
        let wanted = call.to.clone().unwrap_or_else(|| "team-lead".to_owned());
        let found = self
            .app
            .read(&team, move |team| {
                let slot = team.agents().find(|agent| agent.name().as_str() == wanted);
                let names = team.agents().map(|agent| agent.name().to_string());
                slot.map(Agent::slot).ok_or_else(|| names.collect::<Vec<_>>().join(", "))
            })
            .await
            .map_err(why)?;
        let slot = found.map_err(|names| format!("there is no such member; there is: {names}"))?;
        let message = SendMessage {
            to: Recipient::Agent(slot),
            text: call.message,
            summary: None,
            urgency: Urgency::Wake,
            files: Vec::new(),
            key: None,
        };
        let command = Command::SendMessage(Box::new(message));
        self.app.submit(&team, principal, None, command).await.map_err(why)?;
        Ok(format!("Message sent to {}", call.to.as_deref().unwrap_or("team-lead")))
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct OneTeam {
    team: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Send {
    team: String,
    #[serde(default)]
    to: Option<String>,
    message: String,
}

fn read<T: DeserializeOwned>(input: Value) -> Result<T, String> {
    serde_json::from_value(input).map_err(|error| format!("the arguments do not fit: {error}"))
}

fn text(value: &impl Serialize) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string())
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the failure's way")]
fn why(failure: Failure) -> String {
    format!("{}: {}", failure.code(), failure.detail())
}

/// All of them.
fn tools() -> Vec<Tool> {
    let team = json!({ "type": "string", "description": "Its id, as aion_list_teams says it." });
    vec![
        tool(
            "aion_list_teams",
            "List the teams, with how many tasks and requests are open.",
            json!({}),
            &[],
            true,
        ),
        tool(
            "aion_show_team",
            "Show a team: its members and what they do, its tasks, what waits for a decision.",
            json!({ "team": team }),
            &["team"],
            true,
        ),
        tool(
            "aion_list_requests",
            "List what waits for the person's decision in all teams. Only the person decides.",
            json!({}),
            &[],
            true,
        ),
        tool(
            "aion_send_message",
            "Write to a member of a team in the person's name; without `to` to its lead.",
            json!({
                "team": team,
                "to": { "type": "string", "description": "The member's name." },
                "message": { "type": "string", "description": "What it says." },
            }),
            &["team", "message"],
            false,
        ),
    ]
}

fn tool(
    name: &'static str,
    about: &'static str,
    properties: Value,
    required: &[&str],
    reads: bool,
) -> Tool {
    let mut schema = JsonObject::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    let annotations = ToolAnnotations::new().read_only(reads).destructive(false).open_world(false);
    Tool::new(name, about, schema).with_annotations(annotations)
}
