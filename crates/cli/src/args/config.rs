//! The words of `aion config`.

use clap::{Args, Subcommand};

/// `aion config`.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show a setting, or all of them
    Get(GetSetting),
    /// Set a setting in your own file
    Set(SetSetting),
    /// Open your own file in $VISUAL or $EDITOR
    Edit,
    /// Show which files are read
    Path,
    /// Write the JSON Schema of these files, for editors
    Schema,
}

/// `aion config get`.
#[derive(Debug, Args)]
pub(crate) struct GetSetting {
    /// The setting, for example `run.max_time` [default: all]
    pub(crate) key: Option<String>,
    /// Show where the value came from too
    #[arg(long)]
    pub(crate) origin: bool,
}

/// `aion config set`.
#[derive(Debug, Args)]
pub(crate) struct SetSetting {
    /// The setting, for example `run.max_time`
    pub(crate) key: String,
    /// Its value; without one the setting is taken out of the file
    pub(crate) value: Option<String>,
    /// In the project's file, which others have too: .aion/config.toml
    #[arg(long, conflicts_with = "local")]
    pub(crate) project: bool,
    /// In the project's file that nobody else has: .aion/local/config.toml
    #[arg(long)]
    pub(crate) local: bool,
}
