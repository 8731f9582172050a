//! What a person calls a team or a member, looked up at the daemon: whole, or its beginning.

use aion_api::{AgentListResponse, AgentRow, Exit, TeamListResponse, TeamRow};

use super::http::Client;
use crate::exit::Failure;
use crate::history::{Sought, find};
use crate::terminal::clean_line;

impl Sought for TeamRow {
    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn active(&self) -> u64 {
        self.updated_at_ms
    }
}

/// The team that is meant; without a word the one that was active last.
pub(crate) async fn find_team(client: &Client, wanted: Option<&str>) -> Result<TeamRow, Failure> {
    let list: TeamListResponse = client.get("/api/teams").await?;
    Ok(find(&list.teams, wanted)?.clone())
}

/// The member that is meant: its name, its slot like `s2`, the beginning of its name, or `lead`.
pub(crate) async fn find_member(
    client: &Client,
    team: &str,
    wanted: &str,
) -> Result<AgentRow, Failure> {
    let list: AgentListResponse = client.get(&format!("/api/teams/{team}/agents")).await?;
    let members: Vec<AgentRow> = list.agents.into_iter().map(|agent| agent.row).collect();
    member(&members, wanted).cloned()
}

fn member<'a>(members: &'a [AgentRow], wanted: &str) -> Result<&'a AgentRow, Failure> {
    let lower = wanted.to_lowercase();
    let exact = members.iter().find(|member| {
        member.agent_name == lower
            || format!("s{}", member.slot_id) == lower
            || (lower == "lead" && member.role == aion_api::Role::Lead)
    });
    if let Some(member) = exact {
        return Ok(member);
    }
    let begins = |member: &&AgentRow| {
        !lower.is_empty()
            && (member.agent_name.starts_with(&lower)
                || member.label.to_lowercase().starts_with(&lower))
    };
    let found: Vec<&AgentRow> = members.iter().filter(begins).collect();
    let names = |members: &mut dyn Iterator<Item = &AgentRow>| {
        members.map(|member| member.agent_name.clone()).collect::<Vec<_>>().join(", ")
    };
    let shown = clean_line(wanted, 60);
    match found.as_slice() {
        [member] => Ok(member),
        [] => {
            let message = format!("the team has no member {shown:?}");
            Err(Failure::new(Exit::NotFound, "team.unknown_agent", message)
                .with_hint(format!("there is: {}", names(&mut members.iter()))))
        }
        several => {
            let message = format!("{shown:?} may be any of {} members", several.len());
            Err(Failure::new(Exit::Usage, "team.ambiguous_agent", message)
                .with_hint(format!("say which: {}", names(&mut several.iter().copied()))))
        }
    }
}

#[cfg(test)]
mod tests {
    use aion_api::{AgentStatus, Role, StatusReason};

    use super::*;

    fn row(slot_id: u64, name: &str, role: Role) -> AgentRow {
        AgentRow {
            slot_id,
            agent_name: name.to_owned(),
            label: name.to_owned(),
            role,
            agent_type: "scripted".to_owned(),
            model: None,
            color: "blue".to_owned(),
            permission_mode: "default".to_owned(),
            status: AgentStatus::Idle,
            reason: StatusReason::NoTask,
            unread: 0,
            conversation_id: "c".to_owned(),
        }
    }

    #[test]
    fn a_member_is_found_by_what_a_person_remembers() {
        let members = [
            row(1, "team-lead", Role::Lead),
            row(2, "bob", Role::Teammate),
            row(3, "bobby", Role::Teammate),
        ];
        let check = |wanted: &str, expect: Result<u64, Exit>| {
            let found = member(&members, wanted).map(|member| member.slot_id);
            assert_eq!(found.map_err(|failure| failure.exit()), expect, "{wanted}");
        };
        check("lead", Ok(1));
        check("team", Ok(1));
        check("Bob", Ok(2));
        check("s3", Ok(3));
        check("bobb", Ok(3));
        check("bo", Err(Exit::Usage));
        check("", Err(Exit::NotFound));
        check("ann", Err(Exit::NotFound));
    }
}
