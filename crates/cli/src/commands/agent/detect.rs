//! `aion agent detect`: which agents are on this machine, and what helps where one cannot be used; it
//! starts none of them.

use aion_api::{AgentKindRow, CatalogueAgentRow, CatalogueResponse, Exit, ProgramRow, SignedInRow};
use aion_server::catalogue_rows;
use serde_json::json;

use crate::args::Detect;
use crate::client::{Client, Look, Target, look, target};
use crate::daemon;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::services::catalogue;
use crate::terminal::clean_line;

pub(super) async fn run(args: &Detect, json: bool) -> Outcome {
    let target = target(&args.reach)?;
    let client = match &target {
        Target::Remote { .. } => Some(Client::reach(target).await?),
        Target::Local { dir, .. } => match look(dir) {
            Look::There(file) => Some(Client::of(dir, &file)?),
            Look::Gone(_) | Look::Nobody => None,
        },
    };
    let asked = client.as_ref().map(Client::url);
    let rows = match &client {
        Some(client) => client.get::<CatalogueResponse>("/api/agents?refresh=true").await?.agents,
        None => here().await?,
    };
    let programs = rows.into_iter().filter(|row| row.kind == AgentKindRow::Program);
    let agents: Vec<CatalogueAgentRow> = programs.collect();
    if json {
        output::json(&json!({ "daemon": asked, "agents": agents }))?;
        return Ok(Exit::Success);
    }
    print(&agents)?;
    output::line(&match asked {
        Some(url) => format!("as the daemon at {url} sees it; models of services: aion providers"),
        None => "no daemon runs; one that is started from this shell sees it so; models of \
                 services: aion providers"
            .to_owned(),
    })?;
    Ok(Exit::Success)
}

/// As this process sees it.
async fn here() -> Result<Vec<CatalogueAgentRow>, Failure> {
    let programs = daemon::programs()?;
    programs.ask().await;
    Ok(catalogue_rows(&catalogue(&programs, false)))
}

fn print(agents: &[CatalogueAgentRow]) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = agents.iter().map(row).collect();
    output::table(&["AGENT", "USABLE", "VERSION", "SIGNED IN", "WHERE, OR WHY NOT"], &rows)?;
    let fixes = agents.iter().filter_map(|agent| {
        let fix = agent.program.as_ref()?.fix.as_deref()?;
        Some((agent, fix))
    });
    for (at, (agent, fix)) in fixes.enumerate() {
        if at == 0 {
            output::line("")?;
            output::line("what helps:")?;
        }
        let why = if agent.available { "to sign in" } else { "to use it" };
        output::line(&format!("  {:<12} {why}: {}", agent.agent_type, clean_line(fix, 200)))?;
    }
    output::line("")
}

fn row(agent: &CatalogueAgentRow) -> Vec<String> {
    let dash = || "-".to_owned();
    let program = agent.program.as_ref();
    vec![
        agent.agent_type.clone(),
        if agent.available { "yes" } else { "no" }.to_owned(),
        program.and_then(|program| program.version.clone()).unwrap_or_else(dash),
        program.map_or_else(dash, signed_in),
        clean_line(&place(agent, program), 200),
    ]
}

fn signed_in(program: &ProgramRow) -> String {
    match (program.signed_in, &program.signed_in_by) {
        (SignedInRow::Seen, Some(by)) => by.clone(),
        (SignedInRow::Seen, None) => "yes".to_owned(),
        (SignedInRow::NotSeen, _) => "not seen".to_owned(),
        (SignedInRow::Unknown, _) => "cannot be told".to_owned(),
    }
}

fn place(agent: &CatalogueAgentRow, program: Option<&ProgramRow>) -> String {
    let unknown = || "it cannot be used".to_owned();
    if !agent.available {
        return agent.reason.clone().unwrap_or_else(unknown);
    }
    let Some(program) = program else { return String::new() };
    let path = program.path.clone().unwrap_or_default();
    let place = match &program.downloads {
        Some(package) => format!("{path}; the first start downloads {package}"),
        None => path,
    };
    match &program.last_error {
        Some(error) => format!("{place}; last time: {error}"),
        None => place,
    }
}
