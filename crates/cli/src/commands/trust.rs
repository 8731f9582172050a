//! `aion trust`: the person's word that a directory's own settings and instructions may count.

use std::io::{IsTerminal, Write, stderr, stdin};
use std::path::{Path, PathBuf};

use aion_agent::tools::INSTRUCTIONS;
use aion_api::Exit;
use aion_core::rule::RuleWord;
use serde_json::json;

use crate::args::TrustDirectory;
use crate::config::Written;
use crate::confirm::{ask, confirm};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::paths::{data_dir, prepare_data_dir};
use crate::servers::Project;
use crate::terminal::{clean_line, is_screen};
use crate::trust::{Trust, place, rules_of_project};

pub(super) fn run(args: &TrustDirectory, json: bool) -> Outcome {
    let dir = data_dir(args.data.data_dir.as_deref())?;
    let trust = Trust::of(&dir);
    if args.ls {
        return list(&trust, json);
    }
    let workspace = args.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    let full = workspace.canonicalize().map_err(|error| {
        Failure::new(
            Exit::NotFound,
            "workspace.missing",
            format!("{}: {error}", workspace.display()),
        )
    })?;
    if args.rm {
        let was = trust.remove(&full)?;
        return say(&place(&full), if was { "trusted no more" } else { "not trusted" }, json);
    }
    let rules = rules_of_project(&full)?;
    let servers = project(&full)?;
    confirm(&preview(&full, &rules, servers.as_ref()), "Trust it?", args.yes, json)?;
    prepare_data_dir(&dir)?;
    let place = trust.add(&full, &rules)?;
    say(&place, "trusted", json)
}

/// What trust would change.
fn preview(workspace: &Path, rules: &[Written], servers: Option<&Project>) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: its own instructions are read, and what its settings allow runs without asking.",
        place(workspace).display()
    )];
    let allowed = rules.iter().filter(|rule| rule.word == RuleWord::Allow);
    lines.extend(servers.into_iter().flat_map(Project::told).map(|line| format!("  {line}")));
    let read = instructions(workspace);
    lines.extend(read.into_iter().map(|file| format!("  read {file}")));
    lines
        .extend(allowed.map(|rule| format!("  allow {}", clean_line(&rule.rule.to_string(), 200))));
    lines
}

fn say(place: &Path, what: &str, json: bool) -> Outcome {
    if json {
        output::json(&json!({ "directory": place, "trust": what }))?;
    } else {
        output::line(&format!("{} is {what}", place.display()))?;
    }
    Ok(Exit::Success)
}

fn list(trust: &Trust, json: bool) -> Outcome {
    let all: Vec<(PathBuf, bool)> = trust
        .all()?
        .into_keys()
        .map(|path| {
            let stands = trust.trusts(&path);
            (path, stands)
        })
        .collect();
    if json {
        let rows: Vec<_> = all
            .iter()
            .map(|(path, stands)| json!({ "directory": path, "counts": stands }))
            .collect();
        output::json(&rows)?;
    } else if all.is_empty() {
        output::line("no directory is trusted")?;
    } else {
        for (path, stands) in all {
            let note = if stands { "" } else { "  (another repository stands there: not trusted)" };
            output::line(&format!("{}{note}", path.display()))?;
        }
    }
    Ok(Exit::Success)
}

/// Before a run: where a directory's own settings allow something and it is not trusted, a person is
/// asked; without one they do not count, and that is said.
pub(super) fn before_a_run(
    dir: &Path,
    workspace: &Path,
    trusts: bool,
    json: bool,
) -> Result<(), Failure> {
    let trust = Trust::of(dir);
    let rules = rules_of_project(workspace)?;
    let allows = rules.iter().filter(|rule| rule.word == RuleWord::Allow).count();
    if trusts {
        prepare_data_dir(dir)?;
        trust.add(workspace, &rules)?;
        return Ok(());
    }
    let read = instructions(workspace);
    let servers = project(workspace)?;
    let without = allows == 0 && read.is_empty() && servers.is_none();
    let knows_servers =
        servers.as_ref().is_none_or(|project| trust.trusts_servers(workspace, &project.hash));
    let knows_rules = allows == 0 || trust.trusts_with(workspace, &rules);
    if without || (trust.trusts(workspace) && knows_rules && knows_servers) {
        return Ok(());
    }
    if !json && is_screen() && stdin().is_terminal() {
        for line in preview(workspace, &rules, servers.as_ref()) {
            output::line(&line)?;
        }
        if ask("Trust it? Without, what it allows is asked for, and what it says is not read.")? {
            prepare_data_dir(dir)?;
            trust.add(workspace, &rules)?;
        }
        return Ok(());
    }
    let place = place(workspace);
    let mut what = Vec::new();
    if allows > 0 && !knows_rules {
        what.push(format!(
            "the {allows} rule(s) by which its settings allow something do not count"
        ));
    }
    if !read.is_empty() && !trust.trusts(workspace) {
        what.push(format!("its instructions are not read ({})", read.join(", ")));
    }
    if let Some(project) = servers.filter(|_| !knows_servers) {
        what.push(format!("{} MCP server(s) that it names are not started", project.told().len()));
    }
    // Where standard error is gone there is nobody to tell.
    let _ = writeln!(
        stderr(),
        "aion: {} is not trusted: {} (aion trust, or run --trust)",
        place.display(),
        what.join(", and ")
    );
    Ok(())
}

/// The MCP servers that the project names.
fn project(workspace: &Path) -> Result<Option<Project>, Failure> {
    Project::of(workspace).map_err(|why| Failure::new(Exit::Usage, "mcp.unreadable", why))
}

/// The files of instructions that a workspace has.
fn instructions(workspace: &Path) -> Vec<&'static str> {
    INSTRUCTIONS.into_iter().filter(|name| workspace.join(name).is_file()).collect()
}
