//! The words of the commands about keys, services and models.

use clap::{Args, Subcommand};

use super::Reach;

/// `aion auth`.
#[derive(Debug, Subcommand)]
pub(crate) enum Auth {
    /// Keep a key, in a file that only you can read; it is asked for, or read from standard input
    Login(Login),
    /// List whose keys there are and where each comes from; never the keys
    Ls,
    /// Forget a key that is kept
    Rm(Logout),
}

/// `aion auth login`.
#[derive(Debug, Args)]
pub(crate) struct Login {
    /// The service: anthropic, openai, gemini, ollama or compatible
    pub(crate) provider: String,
    /// Keep the key without asking the service whether it takes it
    #[arg(long)]
    pub(crate) no_check: bool,
}

/// `aion auth rm`.
#[derive(Debug, Args)]
pub(crate) struct Logout {
    /// The service
    pub(crate) provider: String,
}

/// `aion providers`.
#[derive(Debug, Args)]
pub(crate) struct Providers {
    /// Call each service that can be used, once and without cost, with the keys of this shell
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

/// `aion models`.
#[derive(Debug, Args)]
pub(crate) struct Models {
    /// Ask this service which models it has [default: those that are known, of all services]
    pub(crate) provider: Option<String>,
}
