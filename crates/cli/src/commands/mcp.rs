//! `aion mcp`: the team's tools for members, and the person's own for their clients; it speaks no MCP
//! itself.

pub(crate) mod bridge;
mod clients;
mod entry;
mod stdio;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aion_api::Exit;
use clap::ValueEnum;
use serde_json::json;

use self::clients::{Form, home};
use self::entry::{Refusal, entered, stands_in, taken_out};
use crate::args::{Install, Mcp, McpClient};
use crate::confirm::confirm;
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::replace::{Within, keep, replace};

pub(super) fn run(command: &Mcp, json: bool) -> Outcome {
    match command {
        Mcp::Bridge => bridge::run(),
        Mcp::Stdio(reach) => super::asynchronous(stdio::run(reach)),
        Mcp::Print(args) => print(args.client, json),
        Mcp::Install(args) => change(args, true, json),
        Mcp::Uninstall(args) => change(args, false, json),
        Mcp::Ls => list(json),
    }
}

fn print(client: McpClient, json: bool) -> Outcome {
    let home = home(client);
    if json {
        output::json(&json!({
            "file": home.file, "text": home.form.text(), "command": home.command,
        }))?;
        return Ok(Exit::Success);
    }
    if let Some(file) = &home.file {
        output::line(&format!("in {}:", file.display()))?;
    }
    output::line(home.form.text().trim_end())?;
    if let Some(command) = home.command {
        output::line(&format!("or: {command}"))?;
    }
    Ok(Exit::Success)
}

/// Enters our server into a client's file, or takes it out.
fn change(args: &Install, enter: bool, json: bool) -> Outcome {
    let home = home(args.client);
    let by_hand = || {
        let name = args.client.to_possible_value();
        let name = name.as_ref().map_or("", |value| value.get_name()).to_owned();
        format!("aion mcp print {name} shows what to enter by hand")
    };
    let (Some(file), Form::Json(..) | Form::Toml(_)) = (&home.file, &home.form) else {
        let message = "the file of this client is not written by aion";
        return Err(Failure::new(Exit::Failure, "mcp.by_hand", message).with_hint(by_hand()));
    };
    // A path that is not the person's own home is one in the project.
    let within = if file.is_absolute() { Within::Own } else { Within::Project(Path::new("")) };
    let place = within
        .file(file)
        .map_err(|error| Failure::io(format!("write {}", file.display()), &error))?;
    let before = read(&place)?;
    let changed =
        if enter { entered(&before, &home.form).map(Some) } else { taken_out(&before, &home.form) };
    let after = match changed {
        Ok(Some(after)) => after,
        Ok(None) | Err(Refusal::There) => {
            if json {
                output::json(&json!({ "file": file, "changed": false }))?;
            } else {
                let how = if enter { "stands in" } else { "does not stand in" };
                output::line(&format!("aion {how} {}: nothing changes", file.display()))?;
            }
            return Ok(Exit::Success);
        }
        Err(Refusal::Unreadable(why)) => {
            let message = format!("{} is left as it is: {why}", file.display());
            return Err(Failure::new(Exit::Failure, "mcp.unreadable", message).with_hint(by_hand()));
        }
    };
    let mut preview = vec![format!("{} changes:", file.display())];
    preview.extend(added(&after, &before).map(|line| format!("- {line}")));
    preview.extend(added(&before, &after).map(|line| format!("+ {line}")));
    confirm(&preview, "Write them?", args.yes, json)?;
    let kept = write(&place, &before, &after)?;
    if json {
        output::json(&json!({ "file": file, "changed": true, "kept_at": kept }))?;
        return Ok(Exit::Success);
    }
    output::line(&format!("{} is written", file.display()))?;
    if let Some(kept) = kept {
        output::line(&format!("what was there is kept in {}", kept.display()))?;
    }
    Ok(Exit::Success)
}

fn list(json: bool) -> Outcome {
    let mut rows = Vec::new();
    for client in McpClient::value_variants() {
        let home = home(*client);
        let Some(file) = &home.file else { continue };
        let state = match (fs::read_to_string(file), &home.form) {
            (Err(_), _) => "no file",
            (Ok(_), Form::Shown(_)) => "not known",
            (Ok(text), form) if stands_in(&text, form) => "entered",
            (Ok(_), _) => "not entered",
        };
        let name = client.to_possible_value().map_or_else(String::new, |v| v.get_name().to_owned());
        rows.push((name, state, file.display().to_string()));
    }
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(client, state, file)| json!({ "client": client, "state": state, "file": file }))
            .collect();
        output::json(&rows)?;
    } else {
        let rows: Vec<Vec<String>> = rows
            .into_iter()
            .map(|(client, state, file)| vec![client, state.to_owned(), file])
            .collect();
        output::table(&["CLIENT", "STATE", "FILE"], &rows)?;
    }
    Ok(Exit::Success)
}

fn read(file: &Path) -> Result<String, Failure> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::io(format!("read {}", file.display()), &error)),
    }
}

/// The lines of a text that another one does not have.
fn added<'t>(before: &'t str, after: &'t str) -> impl Iterator<Item = &'t str> {
    let same = before.lines().zip(after.lines()).take_while(|(old, new)| old == new).count();
    let tail = |text: &'t str| text.lines().skip(same).collect::<Vec<_>>();
    let (old, new) = (tail(before), tail(after));
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let count = new.len() - end;
    new.into_iter().take(count)
}

/// Writes a file whole or not at all, and keeps what was there beside it.
fn write(file: &Path, before: &str, after: &str) -> Result<Option<PathBuf>, Failure> {
    let fail = |error: std::io::Error| Failure::io(format!("write {}", file.display()), &error);
    let kept = match fs::symlink_metadata(file) {
        Ok(_) => Some(keep(file, ".before-aion", before.as_bytes()).map_err(fail)?),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(fail(error)),
    };
    replace(file, after.as_bytes(), 0o666).map_err(fail)?;
    Ok(kept)
}
