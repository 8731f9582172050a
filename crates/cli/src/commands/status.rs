//! `aion status`: whether a daemon serves, and what it does; it starts none.

use aion_api::{Exit, ProgressResponse, ProgressState, TeamListResponse};
use serde_json::json;

use crate::args::Status;
use crate::client::{Client, DaemonFile, Look, Target, last_lines, log_file, look, target};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::{Paint, clean_line};

pub(super) async fn run(args: Status, json: bool) -> Outcome {
    let target = target(&args.reach)?;
    let (client, file) = match &target {
        Target::Remote { .. } => (Client::reach(target).await?, None),
        Target::Local { dir, .. } => match look(dir) {
            Look::There(file) => (Client::of(dir, &file)?, Some(file)),
            Look::Gone(file) => return nobody(dir, Some(&file), json),
            Look::Nobody => return nobody(dir, None, json),
        },
    };
    let health = client.health().await.map_err(|failure| match &file {
        Some(file) => {
            failure.with_hint(format!("its process {} lives; aion stop --now ends it", file.pid))
        }
        None => failure,
    })?;
    let list: TeamListResponse = client.get("/api/teams").await?;
    let living: Vec<_> = list.teams.iter().filter(|team| !team.ended).collect();
    let mut working = Vec::new();
    for team in &living {
        let progress: ProgressResponse =
            client.get(&format!("/api/teams/{}/progress", team.id)).await?;
        if progress.state == ProgressState::Working {
            working.push(team.name.clone());
        }
    }
    let waiting: u32 = living.iter().map(|team| team.requests_open).sum();
    if json {
        output::json(&json!({
            "running": true,
            "url": client.url(),
            "version": health.version,
            "pid": file.as_ref().map(|file| file.pid),
            "data_dir": file.as_ref().map(|file| &file.data_dir),
            "log": file.as_ref().map(|file| log_file(&file.data_dir)),
            "since_ms": file.as_ref().map(|file| file.since_ms),
            "on_demand": file.as_ref().map(|file| file.on_demand),
            "teams": list.teams.len(),
            "working": working.len(),
            "requests_open": waiting,
        }))?;
        return Ok(Exit::Success);
    }
    let paint = Paint::of_stdout();
    output::line(&format!(
        "{} aion {} serves at {}",
        paint.good("●"),
        clean_line(&health.version, 40),
        client.url()
    ))?;
    if let Some(file) = &file {
        print_place(file)?;
    }
    let names = match working.as_slice() {
        [] => String::new(),
        names => format!(": {}", clean_line(&names.join(", "), 200)),
    };
    output::line(&format!("teams    {} ({} at work{names})", list.teams.len(), working.len()))?;
    if waiting > 0 {
        output::line(&format!("waiting  {waiting} request(s) for you: aion approve ls"))?;
    }
    Ok(Exit::Success)
}

fn print_place(file: &DaemonFile) -> Result<(), Failure> {
    let since = i64::try_from(file.since_ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
        .map_or_else(|| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string());
    let how = if file.on_demand { "in the background" } else { "in a terminal" };
    output::line(&format!("process  {}, {how}, since {since}", file.pid))?;
    output::line(&format!("data     {}", file.data_dir.display()))?;
    if file.version != env!("CARGO_PKG_VERSION") {
        let ours = env!("CARGO_PKG_VERSION");
        let text = format!("this is aion {ours}; aion stop lets the next command start {ours}");
        output::line(&Paint::of_stdout().warn(&text))?;
    }
    Ok(())
}

/// No daemon serves. How the last one ended, where it left its file, its log may tell.
fn nobody(dir: &std::path::Path, gone: Option<&DaemonFile>, json: bool) -> Outcome {
    if json {
        output::json(&json!({
            "running": false,
            "data_dir": dir,
            "died_pid": gone.map(|file| file.pid),
        }))?;
        return Ok(Exit::Unreachable);
    }
    output::line(&format!("no daemon serves {}", dir.display()))?;
    if let Some(file) = gone {
        output::line(&format!("the last one, process {}, ended without being stopped", file.pid))?;
        for line in last_lines(&log_file(dir)) {
            output::line(&format!("  {}", clean_line(&line, 200)))?;
        }
    }
    output::line("every command that needs one starts it; aion serve does so in the foreground")?;
    Ok(Exit::Unreachable)
}
