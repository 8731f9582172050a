//! Asks before something is destroyed; without somebody to ask, nothing is.

use std::io::{self, BufRead, IsTerminal, Write};

use aion_api::Exit;

use crate::exit::Failure;
use crate::output;

/// Shows what would happen, and goes on only if the person says yes.
pub(crate) fn confirm(
    preview: &[String],
    question: &str,
    yes: bool,
    json: bool,
) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if json || !io::stdin().is_terminal() {
        let message = format!("{} Nobody is there to ask.", preview.join(" "));
        return Err(Failure::new(Exit::NeedsInput, "unconfirmed", message).with_hint("add --yes"));
    }
    for line in preview {
        output::line(line)?;
    }
    if ask(question)? {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failure, "declined", "nothing was changed"))
    }
}

/// Puts a question that is answered with yes or no.
pub(crate) fn ask(question: &str) -> Result<bool, Failure> {
    let mut out = io::stderr();
    write!(out, "{question} [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
