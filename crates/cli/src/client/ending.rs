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

impl Paused {
    /// Where it is told something.
    fn path(&self, verb: &str) -> String {
        format!("/api/teams/{}/{verb}", self.id)
    }
}

/// Lets no new turn start, and waits until those that run have ended. Those that do not are taken
/// up when a daemon serves again. Where that fails or the person gives it up, the teams go on.
pub(crate) async fn settle(
    dir: &Path,
    file: &DaemonFile,
    wait: Duration,
    say: impl Fn(&str) -> Result<(), Failure>,
) -> Result<Vec<Paused>, Failure> {
    let client = Client::of(dir, file)?;
    let mut paused = Vec::new();
    let settled = tokio::select! {
        settled = pause_all(&client, wait, say, &mut paused) => settled,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(
            Exit::Interrupted,
            "interrupted",
            "interrupted; the daemon still serves, and its teams go on",
        )),
    };
    let Err(failure) = settled else { return Ok(paused) };
    for team in paused.iter().filter(|team| !team.was_held) {
        // The first failure is the one that says why.
        let _ = client.tell::<CommandAcceptedResponse>(&team.path("resume")).await;
    }
    Err(failure)
}

async fn pause_all(
    client: &Client,
    wait: Duration,
    say: impl Fn(&str) -> Result<(), Failure>,
    paused: &mut Vec<Paused>,
) -> Result<(), Failure> {
    let list: TeamListResponse = client.get("/api/teams").await?;
    for team in list.teams.into_iter().filter(|team| !team.ended) {
        if at_work(client, &team.id).await? == 0 {
            continue;
        }
        let known = folded(client, &team.id).await?.team;
        let was_held = known.holds().next().is_some()
            || known.agents().any(|agent| agent.holds().next().is_some());
        let team = Paused { id: team.id, name: team.name, was_held };
        let pause = team.path("pause");
        // Noted before it is done: what may have been paused is resumed where this goes no further.
        paused.push(team);
        let _: CommandAcceptedResponse = client.tell(&pause).await?;
    }
    let deadline = Instant::now() + wait;
    let mut said = false;
    loop {
        let mut turns = 0;
        for team in paused.iter() {
            turns += at_work(client, &team.id).await?;
        }
        if turns == 0 || Instant::now() >= deadline {
            return Ok(());
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
