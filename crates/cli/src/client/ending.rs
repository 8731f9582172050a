//! Ends the daemon of this machine, after the turns that run; every team is kept. It never kills.

use std::path::Path;
use std::time::Duration;

use aion_api::{CommandAcceptedResponse, Exit, ProgressResponse, ProgressState, TeamListResponse};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep, sleep_until};

use super::http::Client;
use super::past::folded;
use super::place::DaemonFile;
use crate::exit::Failure;

/// How long the process may take to end once it was told to.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often teams are asked whether their turns have ended.
const ASK: Duration = Duration::from_millis(200);

/// A team that was paused so that its turns can end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paused {
    /// The team.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// It, or one of its members, was held before, by a person or a rule: a resume would lift that
    /// as well.
    pub(crate) was_held: bool,
}

/// Lets no new turn start, and waits until those that run have ended. Those that do not are taken
/// up when a daemon serves again.
pub(crate) async fn settle(
    dir: &Path,
    file: &DaemonFile,
    wait: Duration,
    say: impl Fn(&str) -> Result<(), Failure>,
) -> Result<Vec<Paused>, Failure> {
    let client = Client::of(dir, file)?;
    let list: TeamListResponse = client.get("/api/teams").await?;
    let mut paused = Vec::new();
    for team in list.teams.into_iter().filter(|team| !team.ended) {
        if at_work(&client, &team.id).await? == 0 {
            continue;
        }
        let known = folded(&client, &team.id).await?.team;
        let was_held = known.holds().next().is_some()
            || known.agents().any(|agent| agent.holds().next().is_some());
        let _: CommandAcceptedResponse =
            client.tell(&format!("/api/teams/{}/pause", team.id)).await?;
        paused.push(Paused { id: team.id, name: team.name, was_held });
    }
    let deadline = Instant::now() + wait;
    let mut said = false;
    loop {
        let mut turns = 0;
        for team in &paused {
            turns += at_work(&client, &team.id).await?;
        }
        if turns == 0 || Instant::now() >= deadline {
            return Ok(paused);
        }
        if !said {
            said = true;
            say(&format!("waiting until {turns} turn(s) end, {} s at most", wait.as_secs()))?;
        }
        sleep_until((Instant::now() + ASK).min(deadline)).await;
    }
}

/// The turns of a team that end by themselves. One that waits for a person is not waited for: it is
/// taken up where it was.
async fn at_work(client: &Client, team: &str) -> Result<usize, Failure> {
    let progress: ProgressResponse = client.get(&format!("/api/teams/{team}/progress")).await?;
    Ok(match progress.state {
        ProgressState::Working => progress.busy.len(),
        ProgressState::Settled | ProgressState::Waiting => 0,
    })
}

/// Tells the process to end, and waits until it is gone.
pub(crate) async fn end(file: &DaemonFile) -> Result<(), Failure> {
    let pid = Pid::from_raw(file.pid);
    let deadline = Instant::now() + PATIENCE;
    match kill(pid, Signal::SIGTERM) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
        Err(errno) => return Err(Failure::io(format!("stop process {pid}"), &errno.into())),
    }
    while file.lives() {
        if Instant::now() >= deadline {
            let message = format!("process {pid} did not end within {} s", PATIENCE.as_secs());
            return Err(Failure::new(Exit::Failure, "daemon.not_stopped", message)
                .with_hint(format!("kill -9 {pid} ends it; nothing that was accepted is lost")));
        }
        sleep(LOOK).await;
    }
    Ok(())
}
