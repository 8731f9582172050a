//! The leash's helper and its holder as real processes, for the tests; it is no product.
//!
//! `leash COMMAND...` is the helper, `sandbox ORDERS COMMAND...` the one inside of a wall. `hold LEDGER COMMAND...` puts a command on a leash and keeps
//! it until it is killed itself. `mcp` is an MCP server.

mod mcp;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use aion_agent::leash::{DirectoryLedger, LeashConfig, LeashedCommand, leash_main, spawn};
use aion_agent::sandbox::sandbox_main;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|word| word.to_str()) {
        Some("leash") => leash_main(args),
        Some("sandbox") => sandbox_main(args),
        Some("mcp") => mcp::serve(),
        Some("hold") => hold(args.collect()).map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        _ => ExitCode::FAILURE,
    }
}

fn hold(args: Vec<OsString>) -> std::io::Result<()> {
    let mut args = args.into_iter();
    let missing = || std::io::Error::other("hold LEDGER COMMAND...");
    let ledger = DirectoryLedger::open(args.next().ok_or_else(missing)?)?;
    let config = LeashConfig {
        program: std::env::current_exe()?,
        arguments: vec!["leash".into()],
        ledger: Some(Arc::new(ledger)),
    };
    let command = LeashedCommand {
        program: args.next().ok_or_else(missing)?,
        arguments: args.collect(),
        directory: std::env::current_dir()?,
        environment: std::env::vars_os().collect(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut child = spawn(&config, command).await?;
        tokio::io::copy(child.output(), &mut tokio::io::stdout()).await?;
        child.wait().await?;
        Ok(())
    })
}
