//! A team as it was, and what it used.

use aion_api::{
    BudgetParams, CommandAcceptedResponse, ProgressResponse, ProgressState, StateParams,
    StateResponse, UsageResponse,
};
use aion_core::budget::{Amount, Cap};
use aion_core::command::{Caller, Command};
use aion_core::id::{Seq, SlotId};
use aion_core::team::{Progress, Team};
use axum::Json;
use axum::extract::State;
use axum::response::Response;

use super::Problems;
use super::answer::accepted;
use super::teams::check_cap;
use crate::app::App;
use crate::auth::Principal;
use crate::convert::team_response;
use crate::error::{Answer, Failure};
use crate::extract::{Asked, At, Body, Key};
use crate::history;
use crate::view;

/// Show a team as it was after an event.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/state",
    tag = "events",
    params(("team_id" = String, Path), StateParams),
    responses((status = 200, description = "The state", body = StateResponse), Problems)
)]
pub(crate) async fn at(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Asked(params): Asked<StateParams>,
) -> Answer<Json<StateResponse>> {
    let team = app.team(&principal, &team).await?;
    let at = params.at.map(Seq);
    let (state, seq) = history::fold(app.service.house(), team.team(), at).await?;
    if state.id().is_none() || at.is_some_and(|at| at != seq) {
        return Err(Failure::not_found("team.no_such_event", "the team's log has no such event"));
    }
    let now = state.now_floor();
    Ok(Json(StateResponse {
        seq: seq.0,
        at: now.0,
        tasks: view::tasks(&state, |slot| view::name_of(&state, slot)),
        requests: view::requests(&state, now),
        mail: view::mail(&state),
        team: team_response(&state),
    }))
}

/// Show what a team has used, and may use.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/usage",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 200, description = "The usage", body = UsageResponse), Problems)
)]
pub(crate) async fn usage(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Json<UsageResponse>> {
    let team = app.team(&principal, &team).await?;
    let usage = app
        .read(&team, |team| {
            let budget = team.budget();
            let (used, cap) = (budget.usage(), budget.cap());
            UsageResponse {
                input_tokens: used.input,
                output_tokens: used.output,
                cache_read_tokens: used.cache_read,
                cache_write_tokens: used.cache_write,
                micro_usd: used.micro_usd,
                reserved_tokens: budget.reserved().tokens,
                cap_tokens: cap.map(|cap| cap.most.tokens),
                cap_micro_usd: cap.map(|cap| cap.most.micro_usd),
            }
        })
        .await?;
    Ok(Json(usage))
}

/// Say whether a team goes on by itself, and up to which event that is so.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/progress",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 200, description = "How far it is", body = ProgressResponse), Problems)
)]
pub(crate) async fn progress(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Json<ProgressResponse>> {
    let team = app.team(&principal, &team).await?;
    let mut progress = app.read(&team, progress_of).await?;
    // Asked after the state: what was read holds no event beyond this one.
    progress.seq = team.submit(Caller::System, None, Command::Tick).await?.seq.0;
    Ok(Json(progress))
}

fn progress_of(team: &Team) -> ProgressResponse {
    let number = |slot: SlotId| u64::from(slot.0);
    let busy = team.agents().filter(|agent| agent.turn().is_some()).map(|a| number(a.slot()));
    let answer = |state, all_tasks_completed, requests, held| ProgressResponse {
        seq: 0,
        state,
        all_tasks_completed,
        requests,
        held,
        busy: busy.collect(),
    };
    match team.progress() {
        Progress::Working => answer(ProgressState::Working, false, Vec::new(), Vec::new()),
        Progress::Settled { all_tasks_completed } => {
            answer(ProgressState::Settled, all_tasks_completed, Vec::new(), Vec::new())
        }
        Progress::Waiting { requests, held } => answer(
            ProgressState::Waiting,
            false,
            requests.into_iter().map(|request| request.0).collect(),
            held.into_iter().map(number).collect(),
        ),
    }
}

/// Set what a team may use in all. Where its members wait for more, they go on.
#[utoipa::path(
    put,
    path = "/api/teams/{team_id}/budget",
    tag = "teams",
    params(("team_id" = String, Path)),
    request_body = BudgetParams,
    responses((status = 202, description = "Accepted", body = CommandAcceptedResponse), Problems)
)]
pub(crate) async fn set_budget(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
    Body(params): Body<BudgetParams>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    if params.tokens == Some(0) || params.micro_usd == Some(0) {
        let detail = "a budget of nothing cannot be set; pause the team instead";
        return Err(Failure::invalid("budget.zero", detail));
    }
    let most = Amount {
        tokens: params.tokens.unwrap_or_default(),
        micro_usd: params.micro_usd.unwrap_or_default(),
    };
    // What one call may use at worst stays as it was.
    let per_call = app.read(&team, |team| team.budget().cap().map(|cap| cap.per_call)).await?;
    let cap = (params != BudgetParams::default())
        .then(|| Cap { most, per_call: per_call.unwrap_or_default() });
    let catalogue = app.service.house().catalogue.catalogue();
    app.read(&team, move |team| check_cap(&catalogue, team, cap)).await??;
    let committed = app.submit(&team, &principal, key, Command::SetCap { cap }).await?;
    Ok(accepted(team.team(), &committed))
}
