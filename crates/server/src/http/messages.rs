//! Messages: sent to the lead or a member, and read back.

use std::path::PathBuf;

use aion_api::{
    FileParams, MessageAcceptedResponse, MessageListResponse, MessageParams, PageParams,
    RedeliverParams,
};
use aion_core::command::{Caller, Command, SendMessage};
use aion_core::event::Event;
use aion_core::id::{Seq, SlotId};
use aion_core::message::{FileRef, Recipient};
use aion_runtime::{Committed, Deliveries, MessageState, TeamHandle};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::Problems;
use crate::app::App;
use crate::auth::Principal;
use crate::convert::{message_row, urgency};
use crate::error::{Answer, Failure};
use crate::extract::{Asked, At, Body, Key, page_limit};
use crate::history;

/// The most files of one message.
const FILES: usize = 16;

/// Write to the lead. The answer comes when the message is durable.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/messages",
    tag = "messages",
    params(
        ("team_id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Send it once per key"),
    ),
    request_body = MessageParams,
    responses(
        (status = 202, description = "Accepted, durably", body = MessageAcceptedResponse),
        Problems,
    )
)]
pub(crate) async fn send(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Key(key): Key,
    Body(params): Body<MessageParams>,
) -> Answer<Response> {
    send_to(&app, &principal, &team, Recipient::Lead, key, params).await
}

/// Write to a member.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/agents/{slot_id}/messages",
    tag = "messages",
    params(
        ("team_id" = String, Path),
        ("slot_id" = u32, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Send it once per key"),
    ),
    request_body = MessageParams,
    responses(
        (status = 202, description = "Accepted, durably", body = MessageAcceptedResponse),
        Problems,
    )
)]
pub(crate) async fn send_to_agent(
    State(app): State<App>,
    principal: Principal,
    At((team, slot)): At<(String, u32)>,
    Key(key): Key,
    Body(params): Body<MessageParams>,
) -> Answer<Response> {
    send_to(&app, &principal, &team, Recipient::Agent(SlotId(slot)), key, params).await
}

/// List the messages of a team, also those that are done with.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/messages",
    tag = "messages",
    params(("team_id" = String, Path), PageParams),
    responses((status = 200, description = "A page", body = MessageListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Asked(page): Asked<PageParams>,
) -> Answer<Json<MessageListResponse>> {
    let team = app.team(&principal, &team).await?;
    let house = app.service.house();
    let limit = page_limit(page.limit)?;
    let page = history::messages(house, team.team(), Seq(page.after), limit).await?;
    let next = page.next;
    let accepted: Vec<Seq> = page.items.iter().map(|recorded| recorded.seq).collect();
    let deliveries = house.store.deliveries(team.team(), &accepted).await?;
    let rows = page.items.iter().zip(deliveries).filter_map(|(recorded, deliveries)| {
        let Event::MessageSent { message, recipients, .. } = &recorded.event else { return None };
        Some(message_row(recorded, message, recipients, deliveries))
    });
    Ok(Json(MessageListResponse { messages: rows.collect(), next }))
}

/// Send a message again that was given up. It keeps its writer, and is a message of its own.
#[utoipa::path(
    post,
    path = "/api/teams/{team_id}/messages/{message_id}/redeliver",
    tag = "messages",
    params(
        ("team_id" = String, Path),
        ("message_id" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Send it once per key"),
    ),
    request_body = RedeliverParams,
    responses(
        (status = 202, description = "Accepted, durably", body = MessageAcceptedResponse),
        Problems,
    )
)]
pub(crate) async fn redeliver(
    State(app): State<App>,
    principal: Principal,
    At((team, message)): At<(String, String)>,
    Key(key): Key,
    Body(params): Body<RedeliverParams>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?;
    let house = app.service.house();
    let unknown = || Failure::not_found("message.unknown", "the team's log has no such message");
    let id = message.parse().map_err(|_| unknown())?;
    let found = history::message(house, team.team(), id).await?.ok_or_else(unknown)?;
    let Event::MessageSent { message, .. } = &found.event else { return Err(unknown()) };
    let slot = match params.slot_id {
        Some(slot) => u32::try_from(slot).map(SlotId).map_err(|_| unknown())?,
        None => given_up(&house.store.deliveries(team.team(), &[found.seq]).await?)?,
    };
    let again = Command::SendAgain { slot, message: Box::new(message.clone()) };
    let command = match key {
        Some(key) => Command::Keyed { key, command: Box::new(again) },
        None => again,
    };
    let credential = Some(principal.credential.clone());
    accepted(&team.submit(Caller::User, credential, command).await?)
}

/// The one mailbox that gave a message up.
fn given_up(deliveries: &[Deliveries]) -> Answer<SlotId> {
    let dead: Vec<SlotId> = deliveries
        .iter()
        .flatten()
        .filter(|(_, state)| *state == MessageState::Dead)
        .map(|(slot, _)| *slot)
        .collect();
    match dead[..] {
        [slot] => Ok(slot),
        [] => Err(Failure::new(
            StatusCode::CONFLICT,
            "message.not_dead",
            "no mailbox gave this message up; say with slot_id whom it is sent to again",
        )),
        _ => Err(Failure::new(
            StatusCode::CONFLICT,
            "message.several",
            "several mailboxes gave this message up; say with slot_id which of them",
        )
        .with_choices(dead.iter().map(|slot| slot.0))),
    }
}

pub(super) async fn send_to(
    app: &App,
    principal: &Principal,
    team: &str,
    to: Recipient,
    key: Option<String>,
    params: MessageParams,
) -> Answer<Response> {
    let team = app.team(principal, team).await?;
    let files = put_files(app, principal, &team, params.files).await?;
    let message = SendMessage {
        to,
        text: params.text,
        summary: None,
        urgency: urgency(params.urgency),
        files,
        key,
    };
    let command = Command::SendMessage(Box::new(message));
    let credential = Some(principal.credential.clone());
    accepted(&team.submit(Caller::User, credential, command).await?)
}

/// Says which message was accepted, also where it was by an earlier try.
fn accepted(committed: &Committed) -> Answer<Response> {
    let sent = committed.events.iter().find_map(|recorded| match &recorded.event {
        Event::MessageSent { message, .. } => Some((message.id, recorded.seq)),
        _ => None,
    });
    let repeated = || {
        let message = committed.receipt.as_ref().and_then(|receipt| receipt.message)?;
        Some((message, committed.seq))
    };
    let (message, seq) = sent.or_else(repeated).ok_or_else(|| {
        Failure::new(StatusCode::CONFLICT, "team.not_sent", "no message was accepted")
    })?;
    let body = MessageAcceptedResponse { message_id: message.to_string(), seq: seq.0 };
    Ok((StatusCode::ACCEPTED, Json(body)).into_response())
}

/// Puts files that the daemon keeps where the team's members can read them.
async fn put_files(
    app: &App,
    principal: &Principal,
    team: &TeamHandle,
    files: Vec<FileParams>,
) -> Answer<Vec<FileRef>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    if files.len() > FILES {
        let detail = format!("a message takes {FILES} files at most");
        return Err(Failure::invalid("team.limit", detail));
    }
    let workspace = app.read(team, |team| PathBuf::from(team.workspace())).await?;
    let (app, user) = (app.clone(), principal.user.clone());
    let put = tokio::task::spawn_blocking(move || {
        files.iter().map(|file| app.files.put(&user, file, &workspace)).collect()
    });
    put.await.unwrap_or_else(|_| {
        Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "file.unavailable", "nothing was read"))
    })
}
