//! `aion serve`: the daemon, until a signal or idleness stops it; teams go on where they were.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aion_api::Exit;
use aion_server::{
    AccessToken, Activity, RemoteConfig, ServeError, Server, ServerConfig, SpanSink, TlsFiles,
    TokenError,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::args::Serve;
use crate::client::{DaemonFile, Look, Start, look, start};
use crate::collector::Collector;
use crate::config::Settings;
use crate::daemon::Daemon;
use crate::exit::{Failure, Outcome};
use crate::groundwork::Ground;
use crate::hosting::OWNER;
use crate::interrupt::Signals;
use crate::output;
use crate::paths::data_dir;
use crate::scenarios::{Scenarios, scenario};

pub(super) async fn run(args: Serve, json: bool) -> Outcome {
    let dir = data_dir(args.data.data_dir.as_deref())?;
    if args.detach {
        return detach(&args, &dir, json).await;
    }
    let served = in_foreground(&args, &dir, json).await;
    if let (true, Err(failure)) = (args.on_demand, &served) {
        // The command that started it reads one line: this one.
        output::json(failure.body())?;
    }
    served
}

/// Lets go of whoever started this process: what ends that command or its terminal does not end the
/// daemon, and nobody waits for a file that the daemon would hold open. Only before anything is
/// opened.
pub(super) fn leave_the_starter() {
    // Whoever leads a session already needs no other.
    let _ = nix::unistd::setsid();
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .map(|entries| {
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
        })
        .unwrap_or_default();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // One of them was the directory that was just read; it is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

async fn in_foreground(args: &Serve, dir: &Path, json: bool) -> Outcome {
    let otherwise = match &args.script {
        Some(script) => Some(scenario(script)?.0),
        None => None,
    };
    let mut signals = Signals::listen()?;
    let scenarios = Arc::new(Scenarios::kept(dir, otherwise));
    let daemon =
        Daemon::open(dir, Arc::clone(&scenarios)).map_err(|failure| taken(failure, dir))?;
    let served = serve(args, json, dir, &daemon, scenarios, &mut signals).await;
    daemon.close().await;
    served
}

/// Says where the daemon is that has the data directory.
fn taken(failure: Failure, dir: &Path) -> Failure {
    match look(dir) {
        Look::There(file) if failure.code() == "data_dir.locked" => Failure::new(
            Exit::Unreachable,
            "data_dir.locked",
            format!(
                "a daemon serves {} already, at {} (process {})",
                dir.display(),
                file.url,
                file.pid
            ),
        )
        .with_hint("aion status shows it, aion stop stops it"),
        Look::There(_) | Look::Gone(_) | Look::Nobody => failure,
    }
}

/// Starts a daemon in the background.
async fn detach(args: &Serve, dir: &Path, json: bool) -> Outcome {
    if let Look::There(file) = look(dir) {
        let failure = Failure::new(Exit::Unreachable, "data_dir.locked", "");
        return Err(taken(failure, &file.data_dir));
    }
    let mut arguments = vec!["--host".to_owned(), args.host.to_string()];
    if let Some(port) = args.port {
        arguments.extend(["--port".to_owned(), port.to_string()]);
    }
    if let Some(script) = &args.script {
        let script =
            std::path::absolute(script).map_err(|error| Failure::io(script.display(), &error))?;
        arguments.extend(["--script".to_owned(), script.display().to_string()]);
    }
    if let (Some(listen), Some(cert), Some(key)) = (args.remote, &args.tls_cert, &args.tls_key) {
        let full = |path: &Path| {
            let path = std::path::absolute(path);
            path.map(|path| path.display().to_string()).map_err(|e| Failure::io("find a file", &e))
        };
        let (listen, cert, key) = (listen.to_string(), full(cert)?, full(key)?);
        let fixed = ["--remote", &listen, "--tls-cert", &cert, "--tls-key", &key];
        arguments.extend(fixed.map(str::to_owned));
        arguments.extend(args.names.iter().flat_map(|n| ["--name".to_owned(), n.clone()]));
    }
    let file = start(dir, &Start { idle_exit: args.idle_exit, arguments }).await?;
    if json {
        output::json(&json!({ "type": "serving", "url": file.url, "pid": file.pid }))?;
    } else {
        output::line(&format!(
            "aion serves at {} (process {})\naion open signs a browser in, aion stop stops it",
            file.url, file.pid
        ))?;
    }
    Ok(Exit::Success)
}

/// Files and connections that may be open at a time, where the system lets us say so.
const DESCRIPTORS: u64 = 16_384;

/// Takes as many file descriptors as clients may need; a person's shell often allows a thousand.
fn make_room_for_clients() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = DESCRIPTORS.min(hard);
    if soft < wanted && setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).is_err() {
        tracing::warn!(soft, "no more file descriptors are to be had; clients beyond them wait");
    }
}

async fn serve(
    args: &Serve,
    json: bool,
    dir: &Path,
    daemon: &Daemon,
    scenarios: Arc<Scenarios>,
    signals: &mut Signals,
) -> Outcome {
    make_room_for_clients();
    let token_file = dir.join("token");
    let config = ServerConfig {
        listen: SocketAddr::new(args.host, port(args)?),
        user: OWNER.to_owned(),
        token: AccessToken::open(&token_file).map_err(|error| token_failure(&error))?,
        workspaces: dir.join("workspaces"),
        files: dir.join("files"),
        groundwork: Arc::new(Ground::new(dir, scenarios)),
        spans: Collector::from_environment().map(|made| Arc::new(made) as Arc<dyn SpanSink>),
        remote: remote(args),
    };
    let server = bind(args, daemon, config).await.map_err(|error| failure(&error))?;
    let url = format!("http://{}", server.address());
    let file = DaemonFile::of_this_process(dir, &url, args.on_demand);
    file.leave()?;
    tracing::info!(%url, version = file.version, "serving");
    let remote = server.remote();
    let (login_url, token_file) = (server.login_link(), token_file.display().to_string());
    if json {
        let line = json!({
            "type": "serving", "url": url, "login_url": login_url, "token_file": token_file,
            "member_port": server.member_port(),
            "remote_url": remote.as_ref().map(|(url, _)| url),
        });
        output::json(&line)?;
    } else {
        output::line(&format!(
            "aion serves at {url}\n\
             sign a browser in, once: {login_url}\n\
             the token for programs:  {token_file}\n\
             Ctrl+C stops it; the teams are kept, and go on when it serves again"
        ))?;
        if let Some((url, login_url)) = remote {
            output::line(&format!(
                "other machines call {url}\nsign a browser of theirs in, once: {login_url}"
            ))?;
        }
    }
    let ended = until_the_end(args.idle_exit, server, signals, || file.take_away()).await;
    file.take_away();
    ended.map_err(|error| Failure::io("serve", &error))?;
    Ok(Exit::Success)
}

/// How other machines are served, where that is meant.
fn remote(args: &Serve) -> Option<RemoteConfig> {
    let (listen, certificate, key) = (args.remote?, args.tls_cert.clone()?, args.tls_key.clone()?);
    Some(RemoteConfig { listen, tls: TlsFiles { certificate, key }, names: args.names.clone() })
}

/// Where to listen: as it was said, else as it is set.
fn port(args: &Serve) -> Result<u16, Failure> {
    let set = || {
        let settings = Settings::load()?;
        let text = settings.text("daemon.port").unwrap_or_default();
        text.parse().map_err(|_| Failure::usage("daemon.port is no port"))
    };
    args.port.map_or_else(set, Ok)
}

/// Listens; a daemon that was started by itself takes another port where its own is in use.
async fn bind(args: &Serve, daemon: &Daemon, config: ServerConfig) -> Result<Server, ServeError> {
    let first = Server::bind(daemon.service.clone(), config.clone()).await;
    match first {
        Err(ServeError::Listen { ref source, .. })
            if args.on_demand
                && args.port.is_none()
                && source.kind() == io::ErrorKind::AddrInUse =>
        {
            let listen = SocketAddr::new(args.host, 0);
            Server::bind(daemon.service.clone(), ServerConfig { listen, ..config }).await
        }
        other => other,
    }
}

async fn until_the_end(
    idle_exit: Option<Duration>,
    server: Server,
    signals: &mut Signals,
    ending: impl FnOnce(),
) -> io::Result<()> {
    let stop = CancellationToken::new();
    let activity = server.activity();
    let serving = server.run(stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        ended = &mut serving => return ended,
        _ = signals.next() => tracing::info!("asked to stop"),
        () = idle(idle_exit, activity) => tracing::info!("nobody needs it: it stops by itself"),
    }
    // Whoever comes from here on waits for the next daemon instead of being refused by this one.
    ending();
    stop.cancel();
    tokio::select! {
        ended = &mut serving => ended,
        // Asked twice: what is open is not waited for.
        _ = signals.next() => Ok(()),
    }
}

/// Waits until nobody has wanted anything for a while.
async fn idle(limit: Option<Duration>, activity: Activity) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    loop {
        match activity.idle_for().await {
            Some(idle) if idle >= limit => return,
            Some(idle) => tokio::time::sleep(limit.saturating_sub(idle)).await,
            None => tokio::time::sleep(limit).await,
        }
    }
}

fn failure(error: &ServeError) -> Failure {
    match error {
        ServeError::NotLoopback(_) => {
            Failure::new(Exit::Usage, "serve.not_loopback", error.to_string()).with_hint(
                "other machines: --remote ADDRESS:PORT --tls-cert FILE --tls-key FILE --name NAME",
            )
        }
        ServeError::Tls(error) => Failure::new(Exit::Usage, "serve.tls", with_source(error)),
        ServeError::Listen { .. } => {
            Failure::new(Exit::Unreachable, "serve.address", with_source(error))
                .with_hint("choose another port with --port N; --port 0 takes a free one")
        }
        ServeError::Members { .. } => {
            Failure::new(Exit::Unreachable, "serve.member_port", with_source(error))
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
