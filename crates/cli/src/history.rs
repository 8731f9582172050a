//! A team as its log tells it: read page by page, folded into a state; nothing is ever appended.

use std::collections::BTreeMap;
use std::sync::Arc;

use aion_core::event::{Event, Recorded};
use aion_core::id::{AgentName, Seq, SlotId, TeamId};
use aion_core::team::Team;
use aion_core::turn::TurnOutcome;
use aion_store::{EventStore, StoreError, TeamRow};

use crate::exit::Failure;
use crate::terminal::clean_line;

/// Events read at a time.
const PAGE: usize = 1_000;

/// What members are called, those that left included: a state remembers only who is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeMap<SlotId, AgentName>);

impl Names {
    /// Those of a whole log.
    pub(crate) fn of<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut names = Self::default();
        events.into_iter().for_each(|recorded| names.learn(&recorded.event));
        names
    }

    fn learn(&mut self, event: &Event) {
        match event {
            Event::AgentSpawned { slot, member, .. } => {
                self.0.insert(*slot, member.name.clone());
            }
            Event::AgentRenamed { slot, name, .. } => {
                self.0.insert(*slot, name.clone());
            }
            _ => {}
        }
    }

    /// What a member is called.
    pub(crate) fn get(&self, team: &Team, slot: SlotId) -> String {
        match (team.agent(slot), self.0.get(&slot)) {
            (Some(agent), _) => agent.name().to_string(),
            (None, Some(name)) => name.to_string(),
            (None, None) => slot.to_string(),
        }
    }
}

/// The names that a team's board needs. Only where somebody who left has completed a task is the
/// whole log read for them.
pub(crate) async fn names(
    store: &Arc<dyn EventStore>,
    id: &TeamId,
    team: &Team,
) -> Result<Names, StoreError> {
    let gone = |slot: &SlotId| team.agent(*slot).is_none();
    if team.board().done().values().filter_map(|task| task.owner).any(|slot| gone(&slot)) {
        return Ok(Names::of(&read_all(store, id, Seq(0)).await?));
    }
    Ok(Names::default())
}

/// A state with the last event it contains.
#[derive(Debug)]
pub(crate) struct Folded {
    /// The state.
    pub(crate) team: Team,
    /// The last event in it.
    pub(crate) seq: Seq,
}

impl Folded {
    /// Before all events.
    pub(crate) fn new() -> Self {
        Self { team: Team::new(), seq: Seq(0) }
    }

    /// Applies the next event.
    pub(crate) fn apply(&mut self, recorded: &Recorded) {
        self.team.evolve(recorded.at, &recorded.event);
        self.seq = recorded.seq;
    }
}

/// The state after `at`, or after the last event. A snapshot shortens the way where one fits.
pub(crate) async fn fold(
    store: &Arc<dyn EventStore>,
    team: &TeamId,
    at: Option<Seq>,
) -> Result<Folded, StoreError> {
    let end = at.unwrap_or(Seq(u64::MAX));
    let mut folded = match store.snapshot_before(team, end).await? {
        Some(snapshot) if snapshot.state_version == Team::STATE_VERSION => {
            match serde_json::from_slice(&snapshot.bytes) {
                Ok(team) => Folded { team, seq: snapshot.seq },
                // A snapshot is a cache: without it the way is longer, and the end the same.
                Err(_) => Folded::new(),
            }
        }
        Some(_) | None => Folded::new(),
    };
    loop {
        let page = store.read(team, folded.seq, PAGE).await?;
        let full = page.len() == PAGE;
        for recorded in &page {
            if recorded.seq > end {
                return Ok(folded);
            }
            folded.apply(recorded);
        }
        if !full {
            return Ok(folded);
        }
    }
}

/// All events after `after`.
pub(crate) async fn read_all(
    store: &Arc<dyn EventStore>,
    team: &TeamId,
    after: Seq,
) -> Result<Vec<Recorded>, StoreError> {
    let mut events: Vec<Recorded> = Vec::new();
    let mut seen = after;
    loop {
        let page = store.read(team, seen, PAGE).await?;
        let full = page.len() == PAGE;
        if let Some(last) = page.last() {
            seen = last.seq;
        }
        events.extend(page);
        if !full {
            return Ok(events);
        }
    }
}

/// How the lead's last turn up to `end` ended, searched from there backwards.
pub(crate) async fn last_lead_turn(
    store: &Arc<dyn EventStore>,
    team: &TeamId,
    end: Seq,
) -> Result<Option<TurnOutcome>, StoreError> {
    let mut end = end;
    while end > Seq(0) {
        let from = Seq(end.0.saturating_sub(PAGE as u64));
        let page = store.read(team, from, PAGE).await?;
        let last =
            page.into_iter().filter(|recorded| recorded.seq <= end).rev().find_map(|recorded| {
                match recorded.event {
                    Event::TurnEnded { slot: SlotId::LEAD, outcome, .. } => Some(outcome),
                    _ => None,
                }
            });
        if last.is_some() {
            return Ok(last);
        }
        end = from;
    }
    Ok(None)
}

/// What a person may look for by its id, by its name, or by the beginning of either.
pub(crate) trait Sought {
    /// Its id.
    fn id(&self) -> &str;
    /// Its name.
    fn name(&self) -> &str;
    /// When it was active last.
    fn active(&self) -> u64;
}

impl Sought for TeamRow {
    fn id(&self) -> &str {
        self.team.as_str()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn active(&self) -> u64 {
        self.updated_wall_ms
    }
}

/// The team that a person means: by id, by name, or by the beginning of either. Without a word it
/// is the one that was active last.
pub(crate) fn find<'a, T: Sought>(teams: &'a [T], wanted: Option<&str>) -> Result<&'a T, Failure> {
    let Some(wanted) = wanted else {
        return teams.iter().max_by_key(|team| team.active()).ok_or_else(|| {
            not_found("there is no team yet".to_owned()).with_hint("aion demo makes one to look at")
        });
    };
    if let Some(team) = teams.iter().find(|team| team.id() == wanted) {
        return Ok(team);
    }
    let by = |fits: &dyn Fn(&T) -> bool| -> Vec<&'a T> {
        teams.iter().filter(|team| fits(team)).collect()
    };
    let named = by(&|team| team.name() == wanted);
    let found = if named.is_empty() && !wanted.is_empty() {
        by(&|team| team.id().starts_with(wanted) || team.name().starts_with(wanted))
    } else {
        named
    };
    match found.as_slice() {
        [team] => Ok(team),
        [] => Err(not_found(format!("there is no team {:?}", clean_line(wanted, 80)))
            .with_hint("aion team ls shows the teams there are")),
        several => {
            let list: Vec<String> = several
                .iter()
                .map(|team| format!("  {}  {}", team.id(), clean_line(team.name(), 60)))
                .collect();
            let wanted = clean_line(wanted, 80);
            let message = format!("{wanted:?} may be any of {} teams", several.len());
            Err(Failure::new(aion_api::Exit::Usage, "team.ambiguous", message)
                .with_hint(format!("say which by its id:\n{}", list.join("\n"))))
        }
    }
}

fn not_found(message: String) -> Failure {
    Failure::new(aion_api::Exit::NotFound, "team.not_found", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, name: &str, updated_wall_ms: u64) -> TeamRow {
        TeamRow {
            team: TeamId::new(id).unwrap(),
            name: name.to_owned(),
            owner: "local".to_owned(),
            workspace: "/w".to_owned(),
            solo: false,
            ended: false,
            members: 1,
            tasks_open: 0,
            tasks_done: 0,
            requests_open: 0,
            messages_open: 0,
            seq: Seq(1),
            updated_wall_ms,
        }
    }

    #[test]
    fn a_team_is_found_by_what_a_person_remembers() {
        let teams = [row("aa11", "web", 1), row("aa22", "webshop", 3), row("bb33", "docs", 2)];
        let check = |wanted: Option<&str>, expect: Result<&str, aion_api::Exit>| {
            let found = find(&teams, wanted).map(|team| team.team.as_str());
            match (found, expect) {
                (Ok(id), Ok(expected)) => assert_eq!(id, expected),
                (Err(failure), Err(exit)) => {
                    let code = format!("{:?}", failure.report(true));
                    let expected = std::process::ExitCode::from(exit.code());
                    assert_eq!(code, format!("{expected:?}"));
                }
                (found, expect) => panic!("{wanted:?}: {found:?} instead of {expect:?}"),
            }
        };
        check(Some("aa11"), Ok("aa11"));
        check(Some("b"), Ok("bb33"));
        check(Some("web"), Ok("aa11"));
        check(Some("webs"), Ok("aa22"));
        check(None, Ok("aa22"));
        check(Some("aa"), Err(aion_api::Exit::Usage));
        check(Some("we"), Err(aion_api::Exit::Usage));
        check(Some("x"), Err(aion_api::Exit::NotFound));
        check(Some(""), Err(aion_api::Exit::NotFound));
    }
}
