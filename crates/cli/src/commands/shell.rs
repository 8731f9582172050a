//! `aion completions` and `aion man`: what shells and manuals want to know, made from the command
//! line itself.

use std::fs;
use std::io::{self, Write};

use aion_api::Exit;
use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::args::{Cli, Completions, Man};
use crate::exit::{EXIT_CODES, Failure, Outcome};
use crate::replace::replace;

pub(super) fn completions(args: &Completions) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "aion", &mut text);
    io::stdout().lock().write_all(&text)?;
    Ok(Exit::Success)
}

pub(super) fn man(args: &Man) -> Outcome {
    let mut command = Cli::command();
    command.build();
    let Some(dir) = &args.dir else {
        io::stdout().lock().write_all(&page(command)?)?;
        return Ok(Exit::Success);
    };
    let fail = |error: io::Error| Failure::io(dir.display(), &error);
    fs::create_dir_all(dir).map_err(fail)?;
    let mut next = vec![command];
    while let Some(command) = next.pop() {
        next.extend(command.get_subcommands().filter(|c| !c.is_hide_set()).cloned());
        let name = command.get_display_name().unwrap_or("aion").replace(' ', "-");
        replace(&dir.join(format!("{name}.1")), &page(command)?, 0o666).map_err(fail)?;
    }
    Ok(Exit::Success)
}

/// The page of one command; that of the whole program tells the exit codes too.
fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let whole = command.get_name() == "aion";
    let mut text = Vec::new();
    Page::new(command).render(&mut text)?;
    if whole {
        writeln!(text, ".SH \"EXIT STATUS\"")?;
        for (exit, meaning) in EXIT_CODES {
            writeln!(text, ".TP\n{}\n{meaning}", exit.code())?;
        }
    }
    Ok(text)
}
