//! `aion auth`: keeps keys for the models' services, and says where each comes from; it shows none.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::sync::Arc;

use aion_agent::models::{Catalogue, Secret, Service, ServiceProvider};
use aion_agent::provider::ProviderError;
use aion_api::Exit;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use serde_json::json;

use crate::args::{Auth, Login, Logout};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::services::{Callers, Found, KeyFrom, Surroundings};
use crate::terminal::clean_line;

/// The longest key.
const KEY_BYTES: u64 = 16 * 1024;

pub(super) async fn run(command: Auth, json: bool) -> Outcome {
    match command {
        Auth::Login(args) => login(args, json).await,
        Auth::Ls => list(json),
        Auth::Rm(args) => forget(&args, json),
    }
}

async fn login(args: Login, json: bool) -> Outcome {
    let service = known(&args.provider)?;
    let mut around = Surroundings::read()?;
    let key = read_key(service)?;
    let models = if args.no_check { None } else { Some(check(&around, service, &key).await?) };
    let again = around.stored().keep(service, key)?;
    let found = around.find(service);
    let (name, file) = (service.name(), around.kept().file().display().to_string());
    if json {
        output::json(&json!({
            "provider": name, "file": file, "replaced": again, "checked": models.is_some(),
            "key_from": found.key.as_ref().map(|(_, from)| from.to_string()),
        }))?;
        return Ok(Exit::Success);
    }
    let checked = match models {
        Some(count) => format!("; {name} takes it, and has {count} models"),
        None => ", unchecked".to_owned(),
    };
    output::line(&format!("the key of {name} is kept in {file}{checked}"))?;
    if let Some((_, from)) = found.key.filter(|(_, from)| *from != KeyFrom::Stored) {
        output::line(&format!("for now the key of {from} comes before it"))?;
    }
    Ok(Exit::Success)
}

/// The service of a name.
pub(super) fn known(name: &str) -> Result<Service, Failure> {
    Service::from_name(name).ok_or_else(|| {
        let names = Service::ALL.map(Service::name).join(", ");
        Failure::usage(format!("there is no provider {:?}", clean_line(name, 40)))
            .with_hint(format!("there are: {names}"))
    })
}

/// Asks the service for its models, with the key that was given.
async fn check(around: &Surroundings, service: Service, key: &Secret) -> Result<usize, Failure> {
    let mut found = around.find(service);
    found.key = Some((key.clone(), KeyFrom::Stored));
    let hint = "aion auth login --no-check keeps it all the same";
    match models_of(&found).await {
        Ok(models) => Ok(models.len()),
        Err(ProviderError::Login(why)) => {
            let message = format!("{} does not take the key: {why}", service.name());
            Err(Failure::new(Exit::Authentication, "auth.refused", message).with_hint(hint))
        }
        Err(why) => {
            let message = format!("the key could not be checked, and is not kept: {why}");
            Err(Failure::new(Exit::Failure, "auth.unchecked", message).with_hint(hint))
        }
    }
}

/// The models that a service says it has.
pub(super) async fn models_of(found: &Found) -> Result<Vec<String>, ProviderError> {
    let unusable = |why: String| ProviderError::Fatal(why);
    let http = Callers::default().of(&found.place).map_err(unusable)?;
    let nothing = Arc::new(Catalogue::default());
    ServiceProvider::new(found.config(), String::new(), nothing, http)
        .map_err(|why| unusable(why.to_string()))?
        .check()
        .await
}

/// A key from the person, unseen, or from standard input.
fn read_key(service: Service) -> Result<Secret, Failure> {
    let mut text = String::new();
    let stdin = io::stdin();
    if stdin.is_terminal() {
        let mut out = io::stderr();
        write!(out, "key of {} (it is not shown): ", service.name())?;
        out.flush()?;
        let unseen = Unseen::begin()?;
        let read = stdin.lock().take(KEY_BYTES).read_line(&mut text);
        drop(unseen);
        writeln!(out)?;
        read?;
    } else {
        stdin.lock().take(KEY_BYTES).read_line(&mut text)?;
    }
    let key = text.trim();
    if key.is_empty() {
        return Err(Failure::usage("no key was given")
            .with_hint("type it when it is asked for, or give it on standard input"));
    }
    // What is wrong with it is said without it.
    if !key.chars().all(|c| c.is_ascii_graphic()) {
        return Err(Failure::usage("a key has no blanks, and only letters of ASCII"));
    }
    Ok(Secret::new(key))
}

/// The terminal shows nothing of what is typed, as long as this lives.
struct Unseen(nix::sys::termios::Termios);

impl Unseen {
    fn begin() -> Result<Self, Failure> {
        let fail = |errno: nix::Error| Failure::io("hide what is typed", &errno.into());
        let before = tcgetattr(io::stdin()).map_err(fail)?;
        let mut hidden = before.clone();
        hidden.local_flags.remove(LocalFlags::ECHO);
        tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &hidden).map_err(fail)?;
        Ok(Self(before))
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing any more.
        let _ = tcsetattr(io::stdin(), SetArg::TCSAFLUSH, &self.0);
    }
}

fn list(json: bool) -> Outcome {
    let around = Surroundings::read()?;
    let rows: Vec<(Found, bool)> = Service::ALL
        .into_iter()
        .map(|service| (around.find(service), around.kept().key(service).is_some()))
        .collect();
    if json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(found, kept)| {
                json!({
                    "provider": found.service.name(),
                    "key_from": found.key.as_ref().map(|(_, from)| from.to_string()),
                    "kept": kept,
                })
            })
            .collect();
        output::json(&rows)?;
        return Ok(Exit::Success);
    }
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|(found, kept)| {
            let from = found.key.as_ref().map_or("-".to_owned(), |(_, from)| from.to_string());
            let kept = if *kept { "yes" } else { "-" };
            vec![found.service.name().to_owned(), from, kept.to_owned()]
        })
        .collect();
    output::table(&["PROVIDER", "KEY FROM", "KEPT BY AION"], &cells)?;
    Ok(Exit::Success)
}

fn forget(args: &Logout, json: bool) -> Outcome {
    let service = known(&args.provider)?;
    let mut around = Surroundings::read()?;
    let name = service.name();
    if !around.stored().forget(service)? {
        let message = format!("no key of {name} is kept");
        return Err(Failure::new(Exit::NotFound, "auth.none", message).with_hint("aion auth ls"));
    }
    let left = around.find(service).key.map(|(_, from)| from.to_string());
    if json {
        output::json(&json!({ "provider": name, "key_from": left }))?;
        return Ok(Exit::Success);
    }
    output::line(&format!("the key of {name} is not kept any more"))?;
    if let Some(from) = left {
        output::line(&format!("{from} still gives one"))?;
    }
    Ok(Exit::Success)
}
