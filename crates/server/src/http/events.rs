//! What happened in a team, and what its members wrote, page by page.

use aion_api::{EventListResponse, PageParams, TranscriptParams, TranscriptResponse};
use aion_core::id::{Seq, SlotId};
use aion_core::transcript::Item;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::Problems;
use crate::app::App;
use crate::auth::Principal;
use crate::convert::team_event;
use crate::error::{Answer, Failure};
use crate::extract::{Asked, At, page_limit};
use crate::history;

/// List the events of a team after a point; the WebSocket sends the same.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/events",
    tag = "events",
    params(("team_id" = String, Path), PageParams),
    responses((status = 200, description = "A page", body = EventListResponse), Problems)
)]
pub(crate) async fn list(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Asked(page): Asked<PageParams>,
) -> Answer<Json<EventListResponse>> {
    let team = app.team(&principal, &team).await?;
    let house = app.service.house();
    let limit = page_limit(page.limit)?;
    let page = history::events(house, team.team(), Seq(page.after), limit).await?;
    let events = page.items.iter().map(|recorded| team_event(team.team(), recorded)).collect();
    Ok(Json(EventListResponse { events, next: page.next }))
}

/// Read what a member was given, said, thought, called and got.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/transcript",
    tag = "events",
    params(("team_id" = String, Path), TranscriptParams),
    responses((status = 200, description = "A page", body = TranscriptResponse), Problems)
)]
pub(crate) async fn transcript(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
    Asked(page): Asked<TranscriptParams>,
) -> Answer<Json<TranscriptResponse>> {
    let team = app.team(&principal, &team).await?;
    let limit = page_limit(page.limit)?;
    let slot = page.slot_id.map_or(SlotId::LEAD, SlotId);
    let conversation = app
        .read(&team, move |team| team.agent(slot).map(|agent| agent.conversation().clone()))
        .await?
        .ok_or_else(|| Failure::not_found("team.unknown_agent", "nobody has that slot"))?;
    let store = &app.service.house().store;
    let mut items = store.items(&conversation, page.after, limit + 1).await?;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = more.then(|| page.after + items.len() as u64);
    let items = items.iter().map(without_images).collect();
    Ok(Json(TranscriptResponse { items, next }))
}

/// An item for whoever reads the transcript: of an image its kind and its size, in a page that
/// would hold many of them.
fn without_images(item: &Item) -> Value {
    let mut value = serde_json::to_value(item).unwrap_or_default();
    let images = value.get_mut("images").and_then(Value::as_array_mut);
    for image in images.into_iter().flatten() {
        let bytes = image["data"].as_str().map_or(0, |data| data.len() / 4 * 3);
        *image = json!({ "media_type": image["media_type"], "bytes": bytes });
    }
    value
}
