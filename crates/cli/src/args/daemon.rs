//! The words of the commands about the daemon itself, and of how every command reaches it.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{DataDir, duration};

/// Which daemon a command calls.
#[derive(Clone, Debug, Args)]
pub(crate) struct Reach {
    /// The daemon of another machine, or one that is not of the data directory
    #[arg(long, value_name = "URL", env = "AION_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The token that it wants to see; better in the environment than here, where others see it
    #[arg(long, value_name = "TOKEN", env = "AION_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// A certificate (PEM) to trust for that address, beside those that this machine trusts
    #[arg(long, value_name = "FILE", env = "AION_CA", hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// Which team a command is about.
#[derive(Clone, Debug, Args)]
pub(crate) struct OfTeam {
    /// The team: its id, its name, or their beginning [default: the one that was active last]
    #[arg(long, short, value_name = "TEAM", env = "AION_TEAM", hide_env_values = true)]
    pub(crate) team: Option<String>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Play a scenario file instead of asking a model, in every team that was not given its own
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// The address to listen on. Only this machine is served: 127.0.0.1 or `::1`
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// The port to listen on; 0 takes a free one [default: 7717, or as daemon.port is set]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Serve other machines too, at this address and port, by TLS
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tls_cert", requires = "tls_key")]
    pub(crate) remote: Option<SocketAddr>,
    /// The certificate that other machines see, as PEM, with those between it and its authority
    #[arg(long, value_name = "FILE", requires = "remote")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key, as PEM
    #[arg(long, value_name = "FILE", requires = "remote")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A name under which other machines call; may be given more than once
    #[arg(long = "name", value_name = "NAME", requires = "remote")]
    pub(crate) names: Vec<String>,
    /// Serve in the background, and return as soon as it serves
    #[arg(long)]
    pub(crate) detach: bool,
    /// End after this time without a call and without a team that works or waits for you
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) idle_exit: Option<Duration>,
    /// Started by another command, which reads the first line.
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) on_demand: bool,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// `aion status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion stop`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Do not wait for turns that run; they are taken up when it serves again
    #[arg(long)]
    pub(crate) now: bool,
    /// How long to wait for turns that run
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// `aion open`.
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// The team to open: its id, its name, or their beginning
    pub(crate) team: Option<String>,
    /// Only print the link
    #[arg(long)]
    pub(crate) print: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}
