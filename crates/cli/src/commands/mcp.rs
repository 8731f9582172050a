//! `aion mcp`: the team's tools for programs that speak MCP; it speaks no MCP itself.

pub(crate) mod bridge;

use crate::args::Mcp;
use crate::exit::Outcome;

pub(super) fn run(command: &Mcp) -> Outcome {
    match command {
        Mcp::Bridge => bridge::run(),
    }
}
