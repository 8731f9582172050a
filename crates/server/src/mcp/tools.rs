//! The team's tools in the words of MCP: a call becomes one of the registry in the member's name; it
//! never judges one.

use std::sync::Arc;
use std::time::Duration;

use aion_core::agent::{AgentState, Role};
use aion_core::command::Caller;
use aion_core::id::SlotId;
use aion_core::team::Team;
use aion_runtime::HostError;
use aion_runtime::tools::{CallContext, ToolEffect, ToolOffer};
use aion_runtime::{OpenError, TeamHandle, TeamService};
use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ErrorData,
    Implementation, JsonObject, ListToolsResult, MetaObject, PaginatedRequestParams, RequestId,
    ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::answers::{failed, listed};
use super::tokens::{CALLS, Member};
use crate::auth::secret;

/// Where a client says that a call is the repetition of one whose answer it never saw.
pub(crate) const KEY: &str = "aion/idempotencyKey";
/// The longest key.
const KEY_BYTES: usize = 200;
/// How long a call is waited for. It is not stopped then.
const CALL_TIME: Duration = Duration::from_mins(1);
/// The code of a failure that is about the member's secret.
const NOT_A_MEMBER: ErrorCode = ErrorCode(-32_001);
/// The code of a call that the client took back.
const CANCELLED: ErrorCode = ErrorCode(-32_800);

/// What all doors share.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) service: TeamService,
    /// Calls that have begun. They come to their end, whoever waits for them.
    pub(crate) calls: TaskTracker,
}

/// The tools for one client.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    tools: Tools,
    client: Client,
}

/// How a client is known.
#[derive(Clone, Debug)]
enum Client {
    /// By the secret that its connection began with.
    Connected {
        member: Arc<Member>,
        /// Tells the connection from all others, also of other runs of the daemon.
        connection: Arc<str>,
    },
    /// By the secret of each request.
    Asking,
}

impl Server {
    /// For a connection of a member.
    pub(crate) fn connected(tools: Tools, member: Arc<Member>) -> Self {
        let connection = Arc::from(&secret()[..16]);
        Self { tools, client: Client::Connected { member, connection } }
    }

    /// For requests that each carry a secret.
    pub(crate) fn asking(tools: Tools) -> Self {
        Self { tools, client: Client::Asking }
    }

    /// Who asks.
    fn member(&self, context: &RequestContext<RoleServer>) -> Result<Arc<Member>, ErrorData> {
        let member = match &self.client {
            Client::Connected { member, .. } => Some(Arc::clone(member)),
            Client::Asking => context
                .extensions
                .get::<Parts>()
                .and_then(|parts| parts.extensions.get::<Arc<Member>>())
                .cloned(),
        };
        let member =
            member.filter(|member| !member.ended.is_cancelled()).ok_or_else(not_a_member)?;
        // Not every client says that it is ready; one that asks for tools has them.
        member.is_ready();
        Ok(member)
    }

    /// What tells a call from all others: what the client says, else its place in its connection.
    fn key(&self, id: &RequestId, given: Option<&Value>) -> Result<String, String> {
        match (given, &self.client) {
            (Some(Value::String(key)), _) if !key.is_empty() && key.len() <= KEY_BYTES => {
                Ok(format!("mcp:{key}"))
            }
            (Some(_), _) => Err(format!(
                "_meta[{KEY:?}] has to be a text of 1 to {KEY_BYTES} bytes; leave it out where the call is not to be repeated"
            )),
            (None, Client::Connected { connection, .. }) => {
                // A number and the same digits as a text are two ids.
                let id = match id {
                    RequestId::Number(number) => number.to_string(),
                    RequestId::String(text) => format!("{text:?}"),
                };
                Ok(format!("mcp:{connection}:{id}"))
            }
            // A request is all there is of a client.
            (None, Client::Asking) => Ok(format!("mcp:{}", &secret()[..32])),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("aion-team", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "You are a member of a team. Nobody sees what you write outside of messages: use \
             team_send_message. team_whoami says who you are, team_read_messages what you were sent."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let member = self.member(&context)?;
        let (_, role) = place(&self.tools.service, &member).await?;
        let offers = self.tools.service.house().tools.offers(role);
        Ok(listed(offers.iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let member = self.member(&context)?;
        let given = request.meta.as_ref().and_then(|meta| meta.0.0.get(KEY));
        let key = match self.key(&context.id, given.or_else(|| context.meta.0.0.get(KEY))) {
            Ok(key) => key,
            Err(why) => return Ok(failed(why)),
        };
        let Ok(permit) = Arc::clone(&member.calls).try_acquire_owned() else {
            return Ok(failed(format!(
                "{CALLS} calls are on their way; wait until one of them is answered"
            )));
        };
        let name = request.name.into_owned();
        let input = Value::Object(request.arguments.unwrap_or_default());
        let service = self.tools.service.clone();
        // Begun is done: a client that goes away, or does not want it any more, does not leave a
        // half of it.
        let call = self.tools.calls.spawn(async move {
            let _permit = permit;
            call(&service, &member, &name, &input, key).await
        });
        let late = "there is no answer yet; whether it was accepted is not known. Look, before you \
                    call again";
        tokio::select! {
            biased;
            answer = call => answer.unwrap_or_else(|_| Ok(failed("the call fell".to_owned()))),
            () = context.ct.cancelled() => Err(ErrorData::new(CANCELLED, "cancelled", None)),
            () = tokio::time::sleep(CALL_TIME) => Ok(failed(late.to_owned())),
        }
    }
}

/// Calls a tool in a member's name.
async fn call(
    service: &TeamService,
    member: &Member,
    name: &str,
    input: &Value,
    key: String,
) -> Result<CallToolResponse, ErrorData> {
    let (team, _) = place(service, member).await?;
    let context = CallContext {
        caller: Caller::Agent(member.slot),
        credential: Some(member.credential.clone()),
        turn: None,
        step: 0,
        key,
    };
    let answered = service.house().tools.call(&team, &context, name, input).await;
    Ok(match answered {
        Ok(output) if output.ok => {
            CallToolResult::success(vec![ContentBlock::text(output.text)]).into()
        }
        Ok(output) => failed(output.text),
        Err(error) => failed(why(&error)),
    })
}

/// Why a call has no answer of its tool.
fn why(error: &HostError) -> String {
    match error {
        HostError::TurnOver => {
            "this belongs to a turn that is over, or your team has ended".to_owned()
        }
        HostError::Unavailable(reason) => format!(
            "the team cannot store anything at present: {reason}. Whether it was accepted is not known: look, before you call again"
        ),
        HostError::OverBudget | HostError::NoTranscript(_) | HostError::Refused(_) => {
            error.to_string()
        }
    }
}

/// The member's team, and what the member is in it at this moment. A secret of another start of it
/// is none.
async fn place(service: &TeamService, member: &Member) -> Result<(TeamHandle, Role), ErrorData> {
    let team = match service.opened(&member.team) {
        Some(team) => team,
        None => match service.open(&member.team).await {
            Ok(team) => team,
            Err(OpenError::NoTeam(_)) => return Err(not_a_member()),
            Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
        },
    };
    let (slot, generation) = (member.slot, member.generation);
    let role = team
        .query(move |team| alive(team, slot, generation))
        .await
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok((team, role.ok_or_else(not_a_member)?))
}

/// What a member is, as long as this start of it lives.
pub(crate) fn alive(team: &Team, slot: SlotId, generation: u32) -> Option<Role> {
    let agent = team.agent(slot).filter(|agent| agent.generation() == generation)?;
    match agent.state() {
        AgentState::Pending
        | AgentState::Idle
        | AgentState::Active { .. }
        | AgentState::Stopping { .. } => Some(agent.role()),
        AgentState::Failed { .. } => None,
    }
}

fn not_a_member() -> ErrorData {
    ErrorData::new(
        NOT_A_MEMBER,
        "this credential belongs to nobody in the team any more; ask for a new one",
        None,
    )
}

/// A tool in the words of MCP.
fn tool(offer: &ToolOffer) -> Tool {
    let schema = match &offer.spec.input_schema {
        Value::Object(schema) => schema.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            JsonObject::new()
        }
    };
    let effect = offer.effect;
    let annotations = ToolAnnotations::new()
        .read_only(effect == ToolEffect::Reads)
        .destructive(effect == ToolEffect::Ends)
        // The world of a team is the team.
        .open_world(false);
    // Some clients hide the tools of a server until they are searched for.
    let always = json!({ "anthropic/alwaysLoad": true });
    let meta = match always {
        Value::Object(meta) => MetaObject(meta),
        _ => MetaObject::default(),
    };
    Tool::new(offer.spec.name.clone(), offer.spec.description.clone(), schema)
        .with_annotations(annotations)
        .with_meta(meta)
}
