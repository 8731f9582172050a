//! `aion serve`: the daemon in the foreground, until a signal stops it; teams go on where they were.

use std::error::Error;
use std::net::SocketAddr;

use aion_api::Exit;
use aion_server::{AccessToken, ServeError, Server, ServerConfig, TokenError};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::args::Serve;
use crate::daemon::{self, Daemon};
use crate::exit::{Failure, Outcome};
use crate::hosting::OWNER;
use crate::interrupt::Signals;
use crate::output;
use crate::paths::data_dir;

pub(super) async fn run(args: Serve, json: bool) -> Outcome {
    let Some(script) = &args.script else {
        return Err(daemon::no_provider());
    };
    let (scenario, _) = daemon::scenario(script)?;
    let dir = data_dir(args.data.data_dir.as_deref())?;
    let mut signals = Signals::listen()?;
    let daemon = Daemon::open(&dir, scenario)?;
    let served = serve(&args, json, &dir, &daemon, &mut signals).await;
    daemon.close().await;
    served
}

async fn serve(
    args: &Serve,
    json: bool,
    dir: &std::path::Path,
    daemon: &Daemon,
    signals: &mut Signals,
) -> Outcome {
    let token_file = dir.join("token");
    let config = ServerConfig {
        listen: SocketAddr::new(args.host, args.port),
        user: OWNER.to_owned(),
        token: AccessToken::open(&token_file).map_err(|error| token_failure(&error))?,
        workspaces: dir.join("workspaces"),
    };
    let server =
        Server::bind(daemon.service.clone(), config).await.map_err(|error| failure(&error))?;
    let url = format!("http://{}", server.address());
    let (login_url, token_file) = (server.login_link(), token_file.display().to_string());
    if json {
        let line = json!({
            "type": "serving", "url": url, "login_url": login_url, "token_file": token_file,
        });
        output::json(&line)?;
    } else {
        output::line(&format!(
            "aion serves at {url}\n\
             sign a browser in, once: {login_url}\n\
             the token for programs:  {token_file}\n\
             Ctrl+C stops it; the teams are kept, and go on when it serves again"
        ))?;
    }
    let stop = CancellationToken::new();
    let serving = server.run(stop.clone());
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        _ = signals.next() => {
            stop.cancel();
            tokio::select! {
                ended = &mut serving => ended,
                // Asked twice: what is open is not waited for.
                _ = signals.next() => Ok(()),
            }
        }
    };
    ended.map_err(|error| Failure::io("serve", &error))?;
    Ok(Exit::Success)
}

fn failure(error: &ServeError) -> Failure {
    match error {
        ServeError::NotLoopback(_) => {
            Failure::new(Exit::Usage, "serve.not_loopback", error.to_string())
        }
        ServeError::Listen { .. } => {
            Failure::new(Exit::Unreachable, "serve.address", with_source(error))
                .with_hint("choose another port with --port N; --port 0 takes a free one")
        }
        ServeError::Store(_) => Failure::new(Exit::Failure, "store.failed", with_source(error)),
    }
}

fn token_failure(error: &TokenError) -> Failure {
    Failure::new(Exit::Unreachable, "serve.token", with_source(error))
}

fn with_source(error: &dyn Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
