//! `aion task`: shows a team's board.

use aion_api::Exit;

use super::Reading;
use super::team::print_tasks;
use crate::args;
use crate::exit::Outcome;
use crate::history::{fold, names};
use crate::{output, view};

pub(super) async fn run(command: args::Task, json: bool) -> Outcome {
    let args::Task::Ls(one) = command;
    let reading = Reading::open(&one.data).await?;
    let (store, row) = reading.team(one.team.as_deref())?;
    let folded = fold(store, &row.team, None).await?;
    let names = names(store, &row.team, &folded.team).await?;
    let tasks = view::tasks(&folded.team, |slot| names.get(&folded.team, slot));
    if json {
        output::json(&tasks)?;
    } else {
        print_tasks(&tasks)?;
    }
    Ok(Exit::Success)
}
