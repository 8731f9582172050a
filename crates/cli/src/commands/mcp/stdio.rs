//! `aion mcp stdio`: hands lines of MCP from standard input to the daemon and its answers back; it
//! does not know what they say.

use std::io::Write;

use aion_api::Exit;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::args::Reach;
use crate::client::connect;
use crate::exit::{Failure, Outcome};
use crate::output;

/// The longest line.
const LINE: u64 = 1024 * 1024;

pub(super) async fn run(reach: &Reach) -> Outcome {
    let client = connect(reach).await?;
    let mut input = BufReader::new(tokio::io::stdin());
    loop {
        let mut line = String::new();
        let read = (&mut input).take(LINE + 1).read_line(&mut line).await;
        let bytes = read.map_err(|error| Failure::io("read standard input", &error))?;
        if bytes == 0 {
            return Ok(Exit::Success);
        }
        if bytes as u64 > LINE {
            return Err(Failure::usage("a message holds 1 MiB at most"));
        }
        if line.trim().is_empty() {
            continue;
        }
        match client.relay("/mcp", &line).await {
            // One line a message, whatever the daemon's layout.
            Ok(Some(text)) => match serde_json::from_str::<Value>(&text) {
                Ok(message) => output::json(&message)?,
                Err(error) => complain(&line, &error.to_string())?,
            },
            Ok(None) => {}
            Err(failure) => complain(&line, failure.message())?,
        }
    }
}

/// A request is answered in any case; the rest is for the log of whoever started this.
fn complain(line: &str, why: &str) -> Result<(), Failure> {
    // Where standard error is gone, the answer alone has to do.
    let _ = writeln!(std::io::stderr(), "aion mcp stdio: {why}");
    let id = serde_json::from_str::<Value>(line).ok().and_then(|line| line.get("id").cloned());
    match id {
        Some(id) => output::json(&json!({
            "jsonrpc": "2.0", "id": id, "error": { "code": -32_000, "message": why },
        })),
        None => Ok(()),
    }
}
