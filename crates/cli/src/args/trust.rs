//! The words of `aion trust`.

use std::path::PathBuf;

use clap::Args;

use super::DataDir;

/// `aion trust`.
#[derive(Debug, Args)]
pub(crate) struct TrustDirectory {
    /// The directory; the whole repository around it is meant [default: the current one]
    pub(crate) directory: Option<PathBuf>,
    /// Trust it no more
    #[arg(long)]
    pub(crate) rm: bool,
    /// List what is trusted
    #[arg(long, conflicts_with_all = ["rm", "directory"])]
    pub(crate) ls: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) data: DataDir,
}
