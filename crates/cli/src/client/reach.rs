//! From what a person said to the daemon that is meant: an address, or a data directory of this
//! machine.

use std::path::Path;

use aion_api::Exit;

use super::http::{Client, Target, secret};
use super::start::Start;
use crate::args::Reach;
use crate::config::{Key, Settings};
use crate::exit::Failure;
use crate::paths::data_dir;

/// The daemon that is meant; that of this machine is started where there is none.
pub(crate) async fn connect(reach: &Reach) -> Result<Client, Failure> {
    Client::reach(target(reach)?).await
}

/// The daemon of a data directory of this machine; it is started where there is none.
pub(crate) async fn connect_local(dir: &Path) -> Result<Client, Failure> {
    Client::reach(Target::Local { dir: dir.to_owned(), start: on_demand()? }).await
}

/// How a command starts a daemon by itself.
fn on_demand() -> Result<Start, Failure> {
    let settings = Settings::load()?;
    let idle_exit = settings.text("daemon.idle_exit").and_then(Key::time);
    Ok(Start { idle_exit, arguments: Vec::new() })
}

/// Which daemon is meant.
pub(crate) fn target(reach: &Reach) -> Result<Target, Failure> {
    let Some(url) = &reach.url else {
        let dir = data_dir(reach.data.data_dir.as_deref())?;
        return Ok(Target::Local { dir, start: on_demand()? });
    };
    let url = url.trim_end_matches('/').to_owned();
    let address = reqwest::Url::parse(&url).ok().filter(reqwest::Url::has_host);
    let here = |address: &reqwest::Url| {
        matches!(address.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
    };
    match address {
        Some(address) if address.scheme() == "https" => {}
        Some(address) if address.scheme() == "http" && here(&address) => {}
        Some(address) if address.scheme() == "http" => {
            let message = format!("{url:?} would send the token where others can read it");
            return Err(
                Failure::usage(message).with_hint("use https://; aion serve --remote serves it")
            );
        }
        Some(_) | None => {
            return Err(Failure::usage(format!("{url:?} is no address of a daemon"))
                .with_hint("it looks like https://team.example:7717"));
        }
    }
    let token = reach.token.as_deref().ok_or_else(|| {
        Failure::new(
            Exit::Authentication,
            "daemon.no_token",
            format!("the daemon at {url} wants to see a token"),
        )
        .with_hint("put it into AION_TOKEN; it stands in the file `token` of its data directory")
    })?;
    let bearer = secret(&format!("Bearer {}", token.trim()))?;
    Ok(Target::Remote { url, bearer, authority: reach.ca.clone() })
}
