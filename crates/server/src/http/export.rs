//! A team's whole log as it is stored, and what its members have used by it; read page by page, so
//! that a long log is never in memory at once.

use std::collections::BTreeMap;

use aion_api::{MemberUsageRow, UsageByMemberResponse};
use aion_core::budget::Usage;
use aion_core::event::{Event, Recorded};
use aion_core::id::{Seq, SlotId, TeamId};
use aion_runtime::TeamService;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;

use super::Problems;
use crate::app::App;
use crate::auth::Principal;
use crate::error::Answer;
use crate::extract::At;

/// Events that are read at a time.
const PAGE: usize = 500;

/// Take a team's log away: each line is one event as JSON, as `aion replay` reads it.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/export",
    tag = "events",
    params(("team_id" = String, Path)),
    responses(
        (
            status = 200,
            description = "All events up to now",
            body = String,
            content_type = "application/x-ndjson",
        ),
        Problems,
    )
)]
pub(crate) async fn export(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Response> {
    let team = app.team(&principal, &team).await?.team().clone();
    // The first page tells of a store that cannot be read while there is still a status to say so.
    let first = page(&app.service, &team, Seq(0)).await?;
    let rest = Some((app.service.clone(), team, first));
    let lines = stream::try_unfold(rest, |rest| async {
        let Some((service, team, events)) = rest else { return Ok(None) };
        let Some(last) = events.last().map(|event| event.seq) else { return Ok(None) };
        let mut text = String::new();
        for recorded in &events {
            text.push_str(&serde_json::to_string(recorded)?);
            text.push('\n');
        }
        let next = if events.len() == PAGE {
            let next = page(&service, &team, last).await?;
            Some((service, team, next))
        } else {
            None
        };
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Some((text, next)))
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"team.jsonl\""),
    ];
    Ok((headers, Body::from_stream(lines)).into_response())
}

/// Show what each member has used, by the model that it used it with.
#[utoipa::path(
    get,
    path = "/api/teams/{team_id}/usage/members",
    tag = "teams",
    params(("team_id" = String, Path)),
    responses((status = 200, description = "The usage", body = UsageByMemberResponse), Problems)
)]
pub(crate) async fn usage_by_member(
    State(app): State<App>,
    principal: Principal,
    At(team): At<String>,
) -> Answer<Json<UsageByMemberResponse>> {
    let team = app.team(&principal, &team).await?.team().clone();
    let mut spent = Spent::default();
    let mut seen = Seq(0);
    loop {
        let events = page(&app.service, &team, seen).await?;
        let Some(last) = events.last() else { break };
        seen = last.seq;
        for recorded in &events {
            spent.take(&recorded.event);
        }
        if events.len() < PAGE {
            break;
        }
    }
    Ok(Json(UsageByMemberResponse { seq: seen.0, members: spent.rows() }))
}

async fn page(
    service: &TeamService,
    team: &TeamId,
    after: Seq,
) -> Result<Vec<Recorded>, aion_runtime::StoreError> {
    service.house().store.read(team, after, PAGE).await
}

/// What members have used, as the log tells it.
#[derive(Default)]
struct Spent {
    members: BTreeMap<SlotId, Member>,
    used: BTreeMap<(SlotId, Option<String>), (Usage, u64)>,
}

#[derive(Default)]
struct Member {
    name: String,
    agent_type: String,
    model: Option<String>,
}

impl Spent {
    fn take(&mut self, event: &Event) {
        match event {
            Event::TeamCreated { lead, .. } => self.joined(SlotId::LEAD, lead),
            Event::AgentSpawned { slot, member, .. } => self.joined(*slot, member),
            Event::AgentRenamed { slot, name, .. } => {
                self.members.entry(*slot).or_default().name = name.to_string();
            }
            Event::ModelChanged { slot, model } => {
                self.members.entry(*slot).or_default().model.clone_from(model);
            }
            Event::TurnEnded { slot, usage, .. } => self.add(*slot, usage.unwrap_or_default(), 1),
            Event::CallReserved { slot, usage, .. } | Event::UsageRecorded { slot, usage } => {
                self.add(*slot, *usage, 0);
            }
            _ => {}
        }
    }

    fn joined(&mut self, slot: SlotId, spec: &aion_core::agent::MemberSpec) {
        let member = Member {
            name: spec.name.to_string(),
            agent_type: spec.agent_type.clone(),
            model: spec.model.clone(),
        };
        self.members.insert(slot, member);
    }

    fn add(&mut self, slot: SlotId, usage: Usage, turns: u64) {
        let model = self.members.get(&slot).and_then(|member| member.model.clone());
        let (used, ended) = self.used.entry((slot, model)).or_default();
        *used = used.plus(usage);
        *ended += turns;
    }

    fn rows(self) -> Vec<MemberUsageRow> {
        let row = |((slot, model), (used, turns)): ((SlotId, Option<String>), (Usage, u64))| {
            let member = self.members.get(&slot);
            MemberUsageRow {
                slot_id: slot.0.into(),
                agent_name: member.map(|member| member.name.clone()).unwrap_or_default(),
                agent_type: member.map(|member| member.agent_type.clone()).unwrap_or_default(),
                model,
                turns,
                input_tokens: used.input,
                output_tokens: used.output,
                cache_read_tokens: used.cache_read,
                cache_write_tokens: used.cache_write,
                micro_usd: used.micro_usd,
            }
        };
        self.used.into_iter().map(row).collect()
    }
}
