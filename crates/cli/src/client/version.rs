//! A daemon of another version than this program: it is restarted if the person agrees, after the
//! turns that run; otherwise it is left alone, and not spoken to.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use aion_api::{CommandAcceptedResponse, Exit};

use super::ending::{end, settle};
use super::http::Client;
use super::place::DaemonFile;
use super::start::{Start, start};
use crate::confirm::ask;
use crate::exit::Failure;
use crate::terminal::clean_line;

/// How long turns that run may take.
const TURNS: Duration = Duration::from_mins(5);
/// This program's version.
const OURS: &str = env!("CARGO_PKG_VERSION");

/// The daemon, in our version.
pub(super) async fn of_our_version(
    dir: &Path,
    file: DaemonFile,
    how: &Start,
) -> Result<DaemonFile, Failure> {
    if file.version == OURS {
        return Ok(file);
    }
    let message = format!(
        "the daemon (process {}) is aion {}, and this is aion {OURS}",
        file.pid, file.version
    );
    let somebody = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let question = format!("{message}. Restart it once the turns that run have ended?");
    if !somebody || !ask(&question)? {
        return Err(Failure::new(Exit::Unreachable, "daemon.version", message)
            .with_hint("aion stop ends it after its turns; the next command starts this version"));
    }
    let paused = settle(dir, &file, TURNS, to_stderr).await?;
    end(&file).await?;
    let file = start(dir, how).await?;
    let client = Client::of(dir, &file)?;
    for team in paused {
        if team.was_held {
            let name = clean_line(&team.name, 60);
            let short: String = team.id.chars().take(8).collect();
            to_stderr(&format!(
                "{name} was held before and stays paused: aion team resume {short}"
            ))?;
            continue;
        }
        let _: CommandAcceptedResponse =
            client.tell(&format!("/api/teams/{}/resume", team.id)).await?;
    }
    Ok(file)
}

#[expect(clippy::unnecessary_wraps, reason = "what is said elsewhere may fail")]
fn to_stderr(line: &str) -> Result<(), Failure> {
    use std::io::Write;
    // Where standard error is gone there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
    Ok(())
}
