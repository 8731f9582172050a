//! `aion help`: a command's help, or the table of exit codes.

use aion_api::Exit;
use clap::CommandFactory;
use serde_json::json;

use crate::args::{Cli, Help};
use crate::exit::{EXIT_CODES, Failure, Outcome};
use crate::output;
use crate::terminal::clean_line;

pub(super) fn run(help: &Help, json: bool) -> Outcome {
    if help.topic == ["exit-codes"] {
        return exit_codes(json);
    }
    let mut command = Cli::command();
    command.build();
    for word in &help.topic {
        let found = command.find_subcommand(word).filter(|c| !c.is_hide_set()).cloned();
        command = found.ok_or_else(|| {
            Failure::usage(format!("there is no help for {:?}", clean_line(word, 40)))
                .with_hint("aion help lists the commands; there is also: aion help exit-codes")
        })?;
    }
    output::line(command.render_long_help().to_string().trim_end())?;
    Ok(Exit::Success)
}

fn exit_codes(json: bool) -> Outcome {
    if json {
        let codes: Vec<_> = EXIT_CODES
            .iter()
            .map(|(exit, meaning)| json!({ "code": exit.code(), "meaning": meaning }))
            .collect();
        output::json(&codes)?;
    } else {
        let rows: Vec<Vec<String>> = EXIT_CODES
            .iter()
            .map(|(exit, meaning)| vec![exit.code().to_string(), (*meaning).to_owned()])
            .collect();
        output::table(&["CODE", "MEANING"], &rows)?;
    }
    Ok(Exit::Success)
}
