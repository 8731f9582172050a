//! Tools that open requests and answer them.

use aion_agent::host::ToolOutput;
use aion_core::agent::{AgentState, PermissionMode};
use aion_core::command::Command;
use aion_core::id::{RequestId, SlotId};
use aion_core::request::{Decision, RequestState};
use aion_core::team::Team;
use serde::Deserialize;
use serde_json::Value;

use super::call::{Answer, Call, Failure, done, receipt};
use super::input::Id;
use super::registry::{Tool, tool};
use super::schema::{choice, flag, text, texts};

pub(super) fn tools() -> Vec<Tool> {
    let request = || text("request_id", "The request, for example \"r3\".").required();
    let plan = || {
        text("plan", "The whole plan: what you will change, in which order, and how it is checked.")
            .required()
    };
    vec![
        tool!(
            Members,
            "team_submit_plan",
            "Submit your plan for approval. Your turn ends with it; the answer comes as mail.",
            [plan()],
            submit_plan
        ),
        tool!(
            Members,
            "ExitPlanMode",
            "Submit your plan for approval. The same as team_submit_plan.",
            [plan()],
            submit_plan
        ),
        tool!(
            Members,
            "team_respond_shutdown",
            "Answer a request to shut down. After approving you leave the team when this turn ends.",
            [
                request(),
                flag("approve", "Whether you agree.").required(),
                text("reason", "Why not; needed where you do not agree."),
            ],
            respond_shutdown
        ).ends(),
        tool!(
            Members,
            "team_shutdown_agent",
            "Ask a member to shut down, or, without `agent`, ask to be shut down yourself. Only the lead may name others.",
            [
                text("agent", "The member's name or slot id; yourself if not said."),
                text("reason", "Why."),
            ],
            shutdown_agent
        ).ends(),
        tool!(
            Members,
            "team_ask_user",
            "Ask the person a question. The answer comes as mail; go on with other work, or end your turn.",
            [
                text("question", "The question.").required(),
                texts("options", "Answers to choose from; free text is always possible."),
            ],
            ask_user
        ),
        tool!(
            Lead,
            "team_decide_plan",
            "Approve a teammate's plan, or send it back with what has to change.",
            [
                request(),
                flag("approve", "Whether work may begin.").required(),
                text("feedback", "What has to change; needed where you send it back."),
                choice(
                    "mode",
                    "The permission mode from here on; \"default\" if not said.",
                    &["plan", "dontAsk", "default"]
                ),
            ],
            decide_plan
        ),
        tool!(
            Lead,
            "team_decide_permission",
            "Allow or deny a teammate's tool call, once. You may allow only what the person has delegated to you.",
            [
                request(),
                flag("allow", "Whether it may run.").required(),
                text("reason", "Why not; the teammate reads it."),
            ],
            decide_permission
        ),
    ]
}

/// Whether a call that did what it was asked to ends the caller's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It does.
    Always,
    /// It does where the caller is to leave the team.
    WhereItLeaves,
    /// It does not.
    Never,
}

/// What a tool's name and input say of that.
pub(crate) fn ending(tool: &str, input: &Value) -> Ending {
    match tool {
        "team_submit_plan" | "ExitPlanMode" => Ending::Always,
        "team_respond_shutdown" => Ending::WhereItLeaves,
        "SendMessage" | "team_send_message" if input["message"]["type"] == "shutdown_response" => {
            Ending::WhereItLeaves
        }
        _ => Ending::Never,
    }
}

/// Whether a member is to leave the team when its turn ends.
pub(crate) fn leaves(team: &Team, slot: SlotId) -> bool {
    team.agent(slot).is_none_or(|agent| matches!(agent.state(), AgentState::Stopping { .. }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    plan: String,
}

async fn submit_plan(call: Call<'_>, input: Plan) -> Answer {
    let committed = call.submit(Command::SubmitPlan { text: input.plan }).await?;
    let request = as_request(receipt(&committed).request);
    Ok(ToolOutput {
        ends_turn: true,
        ..done(format!("Plan submitted{request}. Your turn ends here; the decision comes as mail."))
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondShutdown {
    request_id: Id<RequestId>,
    approve: bool,
    #[serde(default)]
    reason: Option<String>,
}

async fn respond_shutdown(call: Call<'_>, input: RespondShutdown) -> Answer {
    answer_shutdown(call, input.request_id.0, input.approve, input.reason).await
}

pub(super) async fn answer_shutdown(
    call: Call<'_>,
    request: RequestId,
    approve: bool,
    reason: Option<String>,
) -> Answer {
    let decision = if approve {
        Decision::ApproveShutdown
    } else {
        let reason = reason.filter(|reason| !reason.trim().is_empty()).ok_or_else(|| {
            Failure::Say("say in `reason` why not, so that the other side can decide".to_owned())
        })?;
        Decision::RejectShutdown { reason }
    };
    decide(&call, request, decision).await?;
    let leaves = match call.own_slot() {
        Ok(own) if approve => call.query(move |team| leaves(team, own)).await?,
        Ok(_) | Err(_) => false,
    };
    let text = match (approve, leaves) {
        (true, true) => "Shutdown approved. You leave the team when this turn ends.",
        (true, false) => "Shutdown approved.",
        (false, _) => "Shutdown rejected; your reason has been sent.",
    };
    Ok(ToolOutput { ends_turn: leaves, ..done(text) })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShutdownAgent {
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

async fn shutdown_agent(call: Call<'_>, input: ShutdownAgent) -> Answer {
    shut_down(call, input.agent, input.reason).await
}

pub(super) async fn shut_down(
    call: Call<'_>,
    agent: Option<String>,
    reason: Option<String>,
) -> Answer {
    let named = agent.filter(|name| !name.trim().is_empty());
    let who = named.map_or_else(|| call.own_slot().map(|slot| slot.to_string()), Ok)?;
    let (slot, name) = call.member(&who).await?;
    let committed = call.submit(Command::RequestShutdown { slot, reason }).await?;
    let request = as_request(receipt(&committed).request);
    Ok(done(if call.own_slot().is_ok_and(|own| own == slot) {
        format!(
            "You have asked to leave{request}. The lead or the person answers; the answer comes as mail."
        )
    } else {
        format!("{name} has been asked to shut down{request}. The answer comes as mail.")
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AskUser {
    question: String,
    #[serde(default)]
    options: Vec<String>,
}

async fn ask_user(call: Call<'_>, input: AskUser) -> Answer {
    let command = Command::AskUser { text: input.question, options: input.options };
    let committed = call.submit(command).await?;
    let request = as_request(receipt(&committed).request);
    Ok(done(format!(
        "The person has been asked{request}. The answer comes as mail; go on with other work, or end your turn."
    )))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecidePlan {
    request_id: Id<RequestId>,
    approve: bool,
    #[serde(default)]
    feedback: Option<String>,
    #[serde(default)]
    mode: Option<PermissionMode>,
}

async fn decide_plan(call: Call<'_>, input: DecidePlan) -> Answer {
    answer_plan(call, input.request_id.0, input.approve, input.feedback, input.mode).await
}

pub(super) async fn answer_plan(
    call: Call<'_>,
    request: RequestId,
    approve: bool,
    feedback: Option<String>,
    mode: Option<PermissionMode>,
) -> Answer {
    let decision = if approve {
        Decision::ApprovePlan { mode }
    } else {
        let feedback = feedback.filter(|text| !text.trim().is_empty()).ok_or_else(|| {
            Failure::Say("say in `feedback` what has to change in the plan".to_owned())
        })?;
        Decision::ReturnPlan { feedback }
    };
    decide(&call, request, decision).await?;
    Ok(done(if approve { "Plan approved." } else { "Plan sent back with your feedback." }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecidePermission {
    request_id: Id<RequestId>,
    allow: bool,
    #[serde(default)]
    reason: Option<String>,
}

async fn decide_permission(call: Call<'_>, input: DecidePermission) -> Answer {
    let decision = if input.allow {
        Decision::ONCE
    } else {
        Decision::Deny { reason: input.reason.unwrap_or_default() }
    };
    decide(&call, input.request_id.0, decision).await?;
    Ok(done(if input.allow { "Allowed, once." } else { "Denied." }))
}

/// Decides a request; where there is none of that number, the answer lists those there are.
async fn decide(call: &Call<'_>, request: RequestId, decision: Decision) -> Result<(), Failure> {
    let known = call
        .query(
            move |team| {
                if team.request(request).is_some() { Ok(()) } else { Err(open_requests(team)) }
            },
        )
        .await?;
    let decided = call.submit(Command::Decide { request, decision }).await;
    match (decided, known) {
        (Ok(_), _) => Ok(()),
        (Err(Failure::Say(why)), Err(open)) => {
            Err(Failure::Say(format!("{why}; the open requests are: {open}")))
        }
        (Err(failure), _) => Err(failure),
    }
}

fn open_requests(team: &Team) -> String {
    let open: Vec<String> = team
        .requests()
        .filter(|(_, state)| !matches!(state, RequestState::Decided { .. }))
        .map(|(request, _)| format!("{} ({})", request.id, request.kind.name()))
        .collect();
    if open.is_empty() { "none".to_owned() } else { open.join(", ") }
}

fn as_request(request: Option<RequestId>) -> String {
    request.map_or_else(String::new, |request| format!(" as request {request}"))
}
