//! `aion cost`: what a team has used, added up from its log; it knows no prices.

use std::collections::BTreeMap;

use aion_api::Exit;
use aion_core::budget::Usage;
use aion_core::event::{Event, Recorded};
use aion_core::id::SlotId;
use serde::Serialize;

use super::source::Source;
use crate::args::{By, Cost};
use crate::exit::{Failure, Outcome};
use crate::output;
use crate::terminal::clean_line;

/// What somebody used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Used {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    micro_usd: u64,
}

#[derive(Debug, Serialize)]
struct Line {
    who: String,
    #[serde(flatten)]
    used: Used,
}

pub(super) async fn run(args: Cost, json: bool) -> Outcome {
    let source = Source::open(&args.reach, args.team.as_deref()).await?;
    let mut sums = Sums::default();
    source
        .all(|recorded| {
            sums.take(recorded);
            Ok(())
        })
        .await?;
    let mut lines = sums.lines(args.by);
    if args.csv {
        return csv(&lines);
    }
    let total = Line { who: "total".to_owned(), used: sums.total() };
    if json {
        output::json(&serde_json::json!({
            "team": source.id.as_str(), "by": crate::view::word(&args.by), "lines": lines,
            "total": total.used,
        }))?;
        return Ok(Exit::Success);
    }
    lines.push(total);
    let rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
    output::table(&["WHO", "INPUT", "OUTPUT", "CACHE READ", "CACHE WRITE", "COST"], &rows)?;
    Ok(Exit::Success)
}

/// What is added up while a log is read.
#[derive(Debug, Default)]
struct Sums {
    names: BTreeMap<SlotId, String>,
    models: BTreeMap<SlotId, Option<String>>,
    by_member: BTreeMap<SlotId, Used>,
    by_model: BTreeMap<Option<String>, Used>,
}

impl Sums {
    fn take(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::TeamCreated { lead, .. } => {
                self.member(SlotId::LEAD, lead.name.as_str(), lead.model.clone());
            }
            Event::AgentSpawned { slot, member, .. } => {
                self.member(*slot, member.name.as_str(), member.model.clone());
            }
            Event::AgentRenamed { slot, name, .. } => {
                self.names.insert(*slot, name.to_string());
            }
            Event::ModelChanged { slot, model, .. } => {
                self.models.insert(*slot, model.clone());
            }
            Event::UsageRecorded { slot, usage }
            | Event::CallReserved { slot, usage, .. }
            | Event::TurnEnded { slot, usage: Some(usage), .. } => self.used(*slot, *usage),
            _ => {}
        }
    }

    fn used(&mut self, slot: SlotId, usage: Usage) {
        if usage == Usage::default() {
            return;
        }
        let model = self.models.get(&slot).cloned().flatten();
        for used in
            [self.by_member.entry(slot).or_default(), self.by_model.entry(model).or_default()]
        {
            used.input_tokens += usage.input;
            used.output_tokens += usage.output;
            used.cache_read_tokens += usage.cache_read;
            used.cache_write_tokens += usage.cache_write;
            used.micro_usd += usage.micro_usd;
        }
    }

    fn member(&mut self, slot: SlotId, name: &str, model: Option<String>) {
        self.names.insert(slot, name.to_owned());
        self.models.insert(slot, model);
    }

    fn lines(&self, by: By) -> Vec<Line> {
        match by {
            By::Member => self
                .by_member
                .iter()
                .map(|(slot, used)| {
                    let who = self.names.get(slot).cloned().unwrap_or_else(|| slot.to_string());
                    Line { who, used: used.clone() }
                })
                .collect(),
            By::Model => self
                .by_model
                .iter()
                .map(|(model, used)| {
                    let who = model.clone().unwrap_or_else(|| "the agent's own choice".to_owned());
                    Line { who, used: used.clone() }
                })
                .collect(),
        }
    }

    fn total(&self) -> Used {
        self.by_member.values().fold(Used::default(), |sum, used| Used {
            input_tokens: sum.input_tokens + used.input_tokens,
            output_tokens: sum.output_tokens + used.output_tokens,
            cache_read_tokens: sum.cache_read_tokens + used.cache_read_tokens,
            cache_write_tokens: sum.cache_write_tokens + used.cache_write_tokens,
            micro_usd: sum.micro_usd + used.micro_usd,
        })
    }
}

fn cells(line: &Line) -> Vec<String> {
    let used = &line.used;
    let cost = match used.micro_usd {
        // A price that is not known is not a price of nothing.
        0 => "-".to_owned(),
        micro => format!("${}.{:04}", micro / 1_000_000, micro % 1_000_000 / 100),
    };
    let numbers =
        [used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens];
    let mut cells = vec![clean_line(&line.who, 40)];
    cells.extend(numbers.map(|number| number.to_string()));
    cells.push(cost);
    cells
}

fn csv(lines: &[Line]) -> Outcome {
    output::line("who,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,micro_usd")?;
    for Line { who, used } in lines {
        output::line(&format!(
            "{},{},{},{},{},{}",
            quoted(who),
            used.input_tokens,
            used.output_tokens,
            used.cache_read_tokens,
            used.cache_write_tokens,
            used.micro_usd
        ))?;
    }
    Ok::<Exit, Failure>(Exit::Success)
}

/// A field of a CSV file. One that a spreadsheet would take for a formula is text.
fn quoted(text: &str) -> String {
    let clean = clean_line(text, 200);
    let formula = clean.starts_with(['=', '+', '-', '@']);
    let clean = if formula { format!("'{clean}") } else { clean };
    if clean.contains([',', '"']) { format!("\"{}\"", clean.replace('"', "\"\"")) } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_text_and_nothing_else() {
        assert_eq!(quoted("bob"), "bob");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("=1+1"), "'=1+1");
    }

    #[test]
    fn a_price_is_shown_only_where_one_is_known() {
        let line = |micro_usd| Line {
            who: "bob".to_owned(),
            used: Used { input_tokens: 3, micro_usd, ..Used::default() },
        };
        assert_eq!(cells(&line(0)), ["bob", "3", "0", "0", "0", "-"]);
        assert_eq!(cells(&line(1_234_500))[5], "$1.2345");
    }
}
