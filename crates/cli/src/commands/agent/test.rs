//! `aion agent test`: an agent is started, introduces itself, opens a session, and is ended; it is
//! asked nothing.

use std::time::Duration;

use aion_api::{Exit, TrialResponse};
use aion_runtime::tools::{Trial, TrialError};

use crate::args::TestAgent;
use crate::client::{Client, Look, Target, look, target};
use crate::daemon;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::clean_line;

/// How long a trial may take: its package may have to be fetched first.
const PATIENCE: Duration = Duration::from_mins(6);

pub(super) async fn run(args: &TestAgent, json: bool) -> Outcome {
    let target = target(&args.reach)?;
    let client = match &target {
        Target::Remote { .. } => Some(Client::reach(target).await?),
        Target::Local { dir, .. } => match look(dir) {
            Look::There(file) => Some(Client::of(dir, &file)?),
            Look::Gone(_) | Look::Nobody => None,
        },
    };
    let trial = match client {
        Some(client) => {
            client
                .tell_within(&format!("/api/agents/{}/test", word(&args.agent)?), PATIENCE)
                .await?
        }
        None => here(&args.agent).await?,
    };
    if json {
        output::json(&trial)?;
    } else {
        print(&trial)?;
    }
    Ok(Exit::Success)
}

/// A name as a part of a path: it has none of the letters that would mean something there.
fn word(agent: &str) -> Result<&str, Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !agent.is_empty() && agent.chars().all(plain) {
        return Ok(agent);
    }
    Err(unknown(format!("there is no agent {:?}", clean_line(agent, 40))))
}

fn unknown(message: String) -> Failure {
    Failure::new(Exit::NotFound, "agent.unknown", message)
        .with_hint("aion agent detect shows what there is")
}

async fn here(agent: &str) -> Result<TrialResponse, Failure> {
    let trial = daemon::programs()?.try_out(agent).await.map_err(|error| match error {
        TrialError::Unknown(_) => unknown(error.to_string()),
        TrialError::Failed(why) => Failure::new(Exit::Failure, "agent.failed", why)
            .with_hint("aion agent detect shows what helps"),
    })?;
    let Trial { name, version, modes, models, reopens, steers, took } = trial;
    Ok(TrialResponse {
        agent_type: agent.to_owned(),
        name,
        version,
        modes,
        models,
        reopens,
        steers,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

fn print(trial: &TrialResponse) -> Result<(), Failure> {
    let text = |text: &Option<String>| clean_line(text.as_deref().unwrap_or("-"), 100);
    let list = |all: &[String]| {
        if all.is_empty() { "-".to_owned() } else { clean_line(&all.join(", "), 300) }
    };
    let seconds = Duration::from_millis(trial.took_ms).as_secs_f64();
    output::line(&format!("{} answers, and opens a session in {seconds:.1} s", trial.agent_type))?;
    for (what, said) in [
        ("name", text(&trial.name)),
        ("version", text(&trial.version)),
        ("modes", list(&trial.modes)),
        ("models", list(&trial.models)),
        ("reopens", if trial.reopens { "its sessions" } else { "no session" }.to_owned()),
        (
            "steers",
            if trial.steers { "in the middle of a turn" } else { "between turns" }.to_owned(),
        ),
    ] {
        output::line(&format!("  {what:<8} {said}"))?;
    }
    Ok(())
}
