//! `aion backup` and `aion restore`: a copy of all teams, made while they work, and put back while
//! nobody does; each copy is read whole before it is called one.

use std::fs;
use std::path::{Path, PathBuf};

use aion_api::Exit;
use serde_json::json;

use crate::args::{Backup, Restore};
use crate::client::{Look, look};
use crate::confirm::confirm;
use crate::exit::{Failure, Outcome};
use crate::paths::data_dir;
use crate::{daemon, output};

/// What a copy holds beside the store: the teams' scenarios, and files that go along with messages.
const BESIDE: [&str; 2] = ["scenarios", "files"];

pub(super) async fn backup(args: Backup, json: bool) -> Outcome {
    let dir = data_dir(args.data.data_dir.as_deref())?;
    if daemon::reading(&dir)?.is_none() {
        let message = format!("there is nothing to copy in {}", dir.display());
        return Err(Failure::new(Exit::NotFound, "backup.nothing", message));
    }
    let to = std::path::absolute(&args.to).map_err(|e| Failure::io(args.to.display(), &e))?;
    if fs::read_dir(&to).is_ok_and(|mut entries| entries.next().is_some()) {
        let message = format!("{} is not empty", to.display());
        return Err(Failure::new(Exit::Conflict, "backup.not_empty", message));
    }
    if real(&to).starts_with(real(&dir)) {
        let message = format!("{} is inside what is to be copied, {}", to.display(), dir.display());
        return Err(Failure::new(Exit::Conflict, "backup.inside", message));
    }
    daemon::back_up(&dir, &to, &BESIDE)?;
    let (teams, events) = daemon::verify(&to).await?;
    if json {
        output::json(&json!({ "backup": to, "teams": teams, "events": events }))?;
    } else {
        output::line(&format!(
            "{teams} team(s) with {events} event(s) are copied to {}, and every event was read back",
            to.display()
        ))?;
        output::line("Work trees and the daemon's token are not part of it.")?;
    }
    Ok(Exit::Success)
}

pub(super) async fn restore(args: Restore, json: bool) -> Outcome {
    let dir = data_dir(args.data.data_dir.as_deref())?;
    let from = std::path::absolute(&args.from).map_err(|e| Failure::io(args.from.display(), &e))?;
    if !from.join("store.db").is_file() {
        let message = format!("{} is no copy that aion backup made", from.display());
        return Err(Failure::new(Exit::NotFound, "backup.none", message));
    }
    if let Look::There(file) = look(&dir) {
        let message = format!("a daemon (process {}) serves {}", file.pid, dir.display());
        return Err(Failure::new(Exit::Unreachable, "data_dir.locked", message)
            .with_hint("aion stop ends it"));
    }
    let (teams, events) = daemon::verify(&from).await?;
    let preview = [
        format!("{teams} team(s) with {events} event(s) from {}", from.display()),
        format!("take the place of what is in {}, which is kept beside it.", dir.display()),
    ];
    confirm(&preview, "Put them there?", args.yes, json)?;
    let kept = daemon::restore(&from, &dir, &BESIDE)?;
    let (teams, events) = daemon::verify(&dir).await?;
    if json {
        output::json(&json!({
            "restored": dir, "teams": teams, "events": events, "kept_at": kept,
        }))?;
        return Ok(Exit::Success);
    }
    output::line(&format!("{teams} team(s) with {events} event(s) are back in {}", dir.display()))?;
    if let Some(kept) = kept {
        output::line(&format!("what was there is kept in {}", kept.display()))?;
    }
    Ok(Exit::Success)
}

/// Where a path leads, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|part| Some((part, fs::canonicalize(part).ok()?)));
    there.map_or_else(
        || path.to_owned(),
        |(part, real)| real.join(path.strip_prefix(part).unwrap_or(Path::new(""))),
    )
}
