//! The looks themselves: each sees one thing, and says what to do where it is not well.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use aion_agent::models::Service;
use aion_agent::sandbox::Wall;
use aion_api::{AgentListResponse, AgentStatus, SignedInRow, TeamListResponse};
use aion_runtime::tools::Catalogue;
use aion_server::{AccessToken, catalogue_rows};

use super::Check;
use crate::client::{Client, Look, log_file, look};
use crate::config::{Paths, Settings, written};
use crate::daemon;
use crate::paths::check_data_dir;
use crate::services::{Found, Surroundings};
use crate::walls;

/// Files that a process should be able to have open.
const FILES: u64 = 1_024;
/// Below this much room a warning is due, and below that an error.
const ROOM: u64 = 1024 * 1024 * 1024;
const NO_ROOM: u64 = 64 * 1024 * 1024;
/// The oldest git that knows what is used.
const GIT: (u32, u32) = (2, 25);

/// All looks, in the order in which a person would look.
pub(super) async fn all(dir: &Path) -> Vec<Check> {
    let mut checks = vec![machine(), open_files(), locale()];
    checks.extend(git());
    checks.push(settings());
    checks.push(sandbox(dir).await);
    let there = data(dir, &mut checks);
    if there {
        checks.push(room(dir));
        checks.push(store(dir).await);
        checks.extend(token(dir));
        checks.extend(log(dir));
    }
    daemon_and_teams(dir, &mut checks).await;
    checks.push(providers());
    checks.push(programs().await);
    checks
}

fn machine() -> Check {
    let id = "host.platform";
    let name = format!("{} {}", env::consts::OS, env::consts::ARCH);
    if cfg!(target_os = "linux") {
        Check::ok(id, name)
    } else {
        Check::warning(id, name, "processes are kept on a leash on Linux alone in this version")
    }
}

fn open_files() -> Check {
    let id = "host.open_files";
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).unwrap_or("unknown");
    match soft.parse::<u64>() {
        Ok(limit) if limit < FILES => {
            Check::warning(id, format!("{limit} files may be open"), format!("ulimit -n {FILES}"))
        }
        Ok(_) | Err(_) => Check::ok(id, format!("{soft} files may be open")),
    }
}

fn locale() -> Check {
    let id = "host.locale";
    let set = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| Some((name, env::var(name).ok().filter(|text| !text.is_empty())?)));
    match set {
        Some((name, text)) if !is_utf8(&text) => Check::warning(
            id,
            format!("{name} is {text}, which is not UTF-8"),
            "signs like ✓ may look wrong; for example: export LANG=C.UTF-8",
        ),
        Some((name, text)) => Check::ok(id, format!("{name} is {text}")),
        None => Check::ok(id, "not set"),
    }
}

fn is_utf8(locale: &str) -> bool {
    let lower = locale.to_lowercase();
    lower.contains("utf-8") || lower.contains("utf8")
}

fn git() -> Vec<Check> {
    let id = "git.version";
    let without = "aion works without it, but aion demo and aion team undo do not";
    let Some(version) = say("git", &["--version"]) else {
        return vec![Check::warning(id, "git is not found", format!("install git; {without}"))];
    };
    let number = version.trim().strip_prefix("git version ").unwrap_or(&version).to_owned();
    let mut checks = vec![match parts(&number) {
        Some(found) if found >= GIT => Check::ok(id, format!("git {number}")),
        Some(_) | None => Check::warning(
            id,
            format!("git {number}"),
            format!("update git to {}.{} or later", GIT.0, GIT.1),
        ),
    }];
    let named = say("git", &["config", "user.name"]).is_some_and(|name| !name.trim().is_empty())
        && say("git", &["config", "user.email"]).is_some_and(|mail| !mail.trim().is_empty());
    checks.push(if named {
        Check::ok("git.identity", "commits carry your name")
    } else {
        Check::warning(
            "git.identity",
            "git does not know who you are, so agents cannot commit",
            "git config --global user.name …; git config --global user.email …",
        )
    });
    checks
}

/// The first two numbers of a version.
fn parts(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What a program says, if it is there and ends well.
fn say(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn settings() -> Check {
    let id = "config.files";
    let read = Paths::here().and_then(|paths| {
        written(&paths)?;
        Settings::read(&paths, |name| env::var(name).ok())
    });
    match read {
        Ok(settings) if settings.warnings.is_empty() => {
            Check::ok(id, "all settings are understood")
        }
        Ok(settings) => {
            Check::warning(id, settings.warnings.join("; "), "aion config get lists what there is")
        }
        Err(failure) => Check::failed(id, &failure, "aion config path shows which files are read"),
    }
}

/// Which wall there is around commands, and why that one.
async fn sandbox(dir: &Path) -> Check {
    let id = "sandbox.wall";
    let fix = "apt install bubblewrap (or dnf, pacman, apk); without it no command runs";
    let sandbox = match walls::sandbox(dir) {
        Ok(sandbox) => sandbox,
        Err(failure) => return Check::failed(id, &failure, "aion config path"),
    };
    // It runs something inside to see whether that works.
    let wall = tokio::task::spawn_blocking(move || sandbox.wall().clone()).await;
    let Ok(wall) = wall else { return Check::error(id, "the look for it failed", fix) };
    let shown = format!("{}: {wall}", wall.name());
    match wall {
        Wall::Bubblewrap(_) => Check::ok(id, shown),
        Wall::Landlock { .. } => Check::warning(
            id,
            shown,
            "bubblewrap holds more, and lets commands ask for hosts: docs/sandbox.md",
        ),
        Wall::Off => Check::warning(id, shown, "aion config set sandbox.mode required"),
        Wall::Missing { ask: true, .. } => Check::warning(id, shown, fix),
        Wall::Missing { ask: false, .. } => Check::error(id, shown, fix),
    }
}

/// Whether there is a data directory that can be looked into.
fn data(dir: &Path, checks: &mut Vec<Check>) -> bool {
    let id = "files.data_dir";
    match check_data_dir(dir) {
        Err(failure) => {
            checks.push(Check::failed(id, &failure, "give another one with --data-dir DIR"));
            false
        }
        Ok(()) if !dir.exists() => {
            checks.push(Check::ok(id, format!("{} will be made", dir.display())));
            false
        }
        Ok(()) => {
            checks.push(Check::ok(id, format!("{} is yours alone", dir.display())));
            true
        }
    }
}

fn room(dir: &Path) -> Check {
    let id = "files.room";
    let fix = "make room: a full disk lets nothing be accepted";
    match nix::sys::statvfs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.blocks_available().saturating_mul(stat.fragment_size());
            let shown = format!("{} MiB are free", free / (1024 * 1024));
            if free < NO_ROOM {
                Check::error(id, shown, fix)
            } else if free < ROOM {
                Check::warning(id, shown, fix)
            } else {
                Check::ok(id, shown)
            }
        }
        Err(errno) => Check::warning(id, format!("the room is not known: {errno}"), fix),
    }
}

async fn store(dir: &Path) -> Check {
    let id = "store.chain";
    match daemon::reading(dir) {
        Ok(None) => Check::ok(id, "there are no teams yet"),
        Ok(Some(_)) => match daemon::verify(dir).await {
            Ok((teams, events)) => {
                Check::ok(id, format!("{events} event(s) of {teams} team(s) are as written"))
            }
            Err(failure) => Check::failed(id, &failure, "aion restore puts a copy back"),
        },
        Err(failure) => Check::failed(id, &failure, "aion restore puts a copy back"),
    }
}

fn token(dir: &Path) -> Option<Check> {
    let (id, path) = ("files.token", dir.join("token"));
    if !path.exists() {
        return None;
    }
    Some(match AccessToken::read(&path) {
        Ok(_) => Check::ok(id, "the daemon's token is yours alone"),
        Err(error) => {
            let fix = format!("aion stop; rm {}; the next daemon makes a new one", path.display());
            Check::error(id, error.to_string(), fix)
        }
    })
}

fn log(dir: &Path) -> Option<Check> {
    let path = log_file(dir);
    let meta = fs::metadata(&path).ok()?;
    let (id, kib) = ("files.log", meta.len() / 1024);
    let mode = meta.permissions().mode() & 0o777;
    Some(if mode & 0o077 != 0 {
        let evidence = format!("{} can be read by others (mode {mode:o})", path.display());
        Check::warning(id, evidence, format!("chmod 600 {}", path.display()))
    } else {
        Check::ok(id, format!("{} ({kib} KiB)", path.display()))
    })
}

async fn daemon_and_teams(dir: &Path, checks: &mut Vec<Check>) {
    let id = "daemon.running";
    let file = match look(dir) {
        Look::There(file) => file,
        Look::Gone(file) => {
            let evidence = format!("process {} ended without being stopped", file.pid);
            let fix =
                format!("see the end of {}; the next command starts one", log_file(dir).display());
            checks.push(Check::warning(id, evidence, fix));
            checks.push(port());
            return;
        }
        Look::Nobody => {
            checks.push(Check::ok(id, "none; a command that needs one starts it"));
            checks.push(port());
            return;
        }
    };
    let ours = env!("CARGO_PKG_VERSION");
    let client = match Client::of(dir, &file) {
        Ok(client) => client,
        Err(failure) => {
            checks.push(Check::failed(id, &failure, "aion stop ends it"));
            return;
        }
    };
    match client.health().await {
        Err(failure) => {
            checks.push(Check::failed(id, &failure, "aion stop --now ends it"));
            return;
        }
        Ok(health) if health.version != ours => checks.push(Check::error(
            id,
            format!("{} is aion {}, and this is {ours}", client.url(), health.version),
            "aion stop; the next command starts this version",
        )),
        Ok(_) => checks.push(Check::ok(id, format!("{} (process {})", client.url(), file.pid))),
    }
    checks.extend(teams(&client).await);
}

/// Whether the port is free that a daemon would like.
fn port() -> Check {
    let id = "daemon.port";
    let port = Settings::read_quietly().and_then(|set| set.text("daemon.port")?.parse().ok());
    let port: u16 = port.unwrap_or(7717);
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Check::ok(id, format!("{port} is free")),
        Err(error) => Check::warning(
            id,
            format!("{port}: {error}"),
            "a daemon that a command starts takes another; aion config set daemon.port N",
        ),
    }
}

async fn teams(client: &Client) -> Vec<Check> {
    let Ok(list) = client.get::<TeamListResponse>("/api/teams").await else { return Vec::new() };
    let living: Vec<_> = list.teams.iter().filter(|team| !team.ended).collect();
    let mut dead = Vec::new();
    for team in &living {
        let path = format!("/api/teams/{}/agents", team.id);
        let Ok(agents) = client.get::<AgentListResponse>(&path).await else { continue };
        let failed = agents.agents.iter().filter(|agent| agent.row.status == AgentStatus::Failed);
        dead.extend(failed.map(|agent| format!("{} of {}", agent.row.agent_name, team.name)));
    }
    let waiting: u32 = living.iter().map(|team| team.requests_open).sum();
    vec![
        if dead.is_empty() {
            Check::ok("teams.members", format!("{} team(s), nobody has failed", living.len()))
        } else {
            Check::warning(
                "teams.members",
                format!("failed: {}", dead.join(", ")),
                "aion log TEAM tells why; aion agent restart MEMBER starts it again",
            )
        },
        if waiting == 0 {
            Check::ok("teams.requests", "nothing waits for you")
        } else {
            Check::warning("teams.requests", format!("{waiting} wait for you"), "aion approve ls")
        },
    ]
}

/// What a model could be thought with, as a daemon that is started from this shell sees it.
fn providers() -> Check {
    let id = "agents.providers";
    let around = match Surroundings::read().and_then(|around| around.models().map(|_| around)) {
        Ok(around) => around,
        Err(failure) => return Check::failed(id, &failure, "see docs/providers.md"),
    };
    let found: Vec<Found> = Service::ALL.into_iter().map(|service| around.find(service)).collect();
    let wrong = found
        .iter()
        .find_map(|found| Some((found, found.problem.as_ref()?)).filter(|_| found.meant));
    if let Some((found, problem)) = wrong {
        return Check::warning(
            id,
            format!("{}: {problem}", found.service.name()),
            "aion providers shows all of them",
        );
    }
    let usable: Vec<String> = found
        .iter()
        .filter(|found| found.problem.is_none())
        .map(|found| match &found.key {
            Some((_, from)) => format!("{} (key from {from})", found.service.name()),
            None => found.service.name().to_owned(),
        })
        .collect();
    if usable.is_empty() {
        return Check::warning(
            id,
            "no key is set, and no Ollama answers: nobody to think with",
            "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or aion auth login PROVIDER",
        );
    }
    Check::ok(id, usable.join(", "))
}

/// Which agents are installed, as a daemon that is started from this shell sees them.
async fn programs() -> Check {
    let id = "agents.programs";
    let programs = match daemon::programs() {
        Ok(programs) => programs,
        Err(failure) => return Check::failed(id, &failure, "see docs/agents.md"),
    };
    programs.ask().await;
    let rows = catalogue_rows(&Catalogue {
        agents: programs.rows().into_iter().map(|(_, agent)| agent).collect(),
    });
    let installed: Vec<String> = rows
        .iter()
        .filter(|row| row.available)
        .filter_map(|row| {
            let program = row.program.as_ref().filter(|program| program.downloads.is_none())?;
            let version = program.version.as_deref().map_or(String::new(), |v| format!(" {v}"));
            let login =
                if program.signed_in == SignedInRow::NotSeen { " (no login seen)" } else { "" };
            Some(format!("{}{version}{login}", row.agent_type))
        })
        .collect();
    if installed.is_empty() {
        return Check::ok(id, "none is installed; aion agent detect shows what there could be");
    }
    Check::ok(id, installed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_locales_are_read() {
        assert_eq!(parts("2.43.0"), Some((2, 43)));
        assert_eq!(parts("2.43.0.windows.1"), Some((2, 43)));
        assert_eq!(parts("new"), None);
        assert!(is_utf8("de_CH.UTF-8") && is_utf8("C.utf8") && !is_utf8("C"));
    }
}
