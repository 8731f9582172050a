//! The words of `aion mcp`.

use clap::{Args, Subcommand, ValueEnum};

use super::Reach;

/// `aion mcp`.
#[derive(Debug, Subcommand)]
pub(crate) enum Mcp {
    /// For a client of your own: tools that look at your teams and write to them, as MCP on standard input and output
    Stdio(Reach),
    /// Show what a client needs to start `aion mcp stdio`
    Print(Client),
    /// Enter `aion mcp stdio` into a client's file; shows the change and asks
    Install(Install),
    /// Take it out of a client's file again; shows the change and asks
    Uninstall(Install),
    /// Show which clients have it in their files
    Ls,
    /// Inside a member of a team: MCP on standard input and output, until the input ends. Reads `TEAM_MCP_PORT`, `TEAM_MCP_TOKEN` and `TEAM_AGENT_SLOT_ID`
    Bridge,
}

/// `aion mcp print`.
#[derive(Debug, Args)]
pub(crate) struct Client {
    /// The client
    #[arg(value_enum)]
    pub(crate) client: McpClient,
}

/// `aion mcp install`, `aion mcp uninstall`.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The client
    #[arg(value_enum)]
    pub(crate) client: McpClient,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

/// A program that speaks MCP and starts its servers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    /// Claude Code, in this project
    Claude,
    /// Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// `OpenCode` (version 1)
    Opencode,
    /// Goose
    Goose,
    /// Zed
    Zed,
    /// VS Code, in this project
    Vscode,
    /// Copilot CLI
    Copilot,
    /// Cursor
    Cursor,
    /// Qwen Code
    Qwen,
}
