//! The words of the commands that look after the installation: copies, check-ups, settings, shells.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::DataDir;

/// `aion backup`.
#[derive(Debug, Args)]
pub(crate) struct Backup {
    /// The directory to copy into; it must be empty or not exist
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// `aion restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The directory that `aion backup` made
    #[arg(value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// `aion doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Exit with 10 for warnings too
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) data: DataDir,
}

/// `aion completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// `aion man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page for each command into this directory, instead of one page to standard output
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
