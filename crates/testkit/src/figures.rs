//! Figures beside their targets, for people and for programs; it measures nothing itself.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde_json::{Map, Value, json};

/// What a figure has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// Nothing: it explains the others.
    None,
}

/// One measured number.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A short name for programs.
    pub key: &'static str,
    /// What it is, for people.
    pub what: String,
    /// The number.
    pub value: f64,
    /// What it is counted in.
    pub unit: &'static str,
    /// What it has to be.
    pub target: Target,
}

impl Figure {
    /// Whether it is what it has to be.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.value <= most,
            Target::AtLeast(least) => self.value >= least,
            Target::None => true,
        }
    }
}

/// All figures of one run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The run's name.
    pub name: &'static str,
    /// The limits that it set, and other settings that a reader has to know.
    pub settings: Vec<(&'static str, String)>,
    /// The figures, in the order in which they are shown.
    pub figures: Vec<Figure>,
    /// What went wrong, one line each; empty after a good run.
    pub faults: Vec<String>,
}

impl Report {
    /// An empty report.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Adds a setting.
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.settings.push((name, value.into()));
    }

    /// Adds a figure.
    pub fn add(
        &mut self,
        key: &'static str,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        target: Target,
    ) {
        self.figures.push(Figure { key, what: what.into(), value, unit, target });
    }

    /// Whether every figure is what it has to be and nothing went wrong.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.faults.is_empty() && self.figures.iter().all(Figure::is_met)
    }

    /// The report as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!("{}\n", self.name);
        for (name, value) in &self.settings {
            line(&mut out, format_args!("  set {name}: {value}"));
        }
        let width = self.figures.iter().map(|f| f.what.chars().count()).max().unwrap_or_default();
        for figure in &self.figures {
            let value = format!("{} {}", number(figure.value), figure.unit);
            let (target, word) = match figure.target {
                Target::None => (String::new(), ""),
                Target::AtMost(most) => (format!("target ≤ {}", number(most)), verdict(figure)),
                Target::AtLeast(least) => (format!("target ≥ {}", number(least)), verdict(figure)),
            };
            let pad = width - figure.what.chars().count();
            let row = format!(
                "  {}{:pad$}  {value:>16}  {target:<18} {word}",
                figure.what,
                "",
                pad = pad
            );
            line(&mut out, format_args!("{}", row.trim_end()));
        }
        for fault in &self.faults {
            line(&mut out, format_args!("  fault: {fault}"));
        }
        line(
            &mut out,
            format_args!("{}: {}", self.name, if self.is_good() { "ok" } else { "missed" }),
        );
        out
    }

    /// The report as one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let settings: Map<String, Value> =
            self.settings.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let figures: Map<String, Value> = self
            .figures
            .iter()
            .map(|figure| {
                let mut entry = Map::new();
                entry.insert("what".to_owned(), json!(figure.what));
                entry.insert("value".to_owned(), json!(figure.value));
                entry.insert("unit".to_owned(), json!(figure.unit));
                match figure.target {
                    Target::None => {}
                    Target::AtMost(most) => {
                        entry.insert("at_most".to_owned(), json!(most));
                        entry.insert("ok".to_owned(), json!(figure.is_met()));
                    }
                    Target::AtLeast(least) => {
                        entry.insert("at_least".to_owned(), json!(least));
                        entry.insert("ok".to_owned(), json!(figure.is_met()));
                    }
                }
                (figure.key.to_owned(), Value::Object(entry))
            })
            .collect();
        json!({
            "name": self.name,
            "ok": self.is_good(),
            "settings": settings,
            "figures": figures,
            "faults": self.faults,
        })
    }

    /// Writes it to standard output. A reader who left ends nothing.
    pub fn print(&self, as_json: bool) {
        let text = if as_json { format!("{}\n", self.to_json()) } else { self.to_text() };
        let mut out = io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{text}");
}

fn verdict(figure: &Figure) -> &'static str {
    if figure.is_met() { "ok" } else { "missed" }
}

/// A number with as many digits as a reader can use.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 || value.abs() >= 1_000.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else if value.abs() >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

/// The value below which the share `at` (0 to 1) of a list lies; 0 for an empty list. Sorts it.
pub fn quantile(list: &mut [f64], at: f64) -> f64 {
    if list.is_empty() {
        return 0.0;
    }
    list.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list, from a share between 0 and 1"
    )]
    let place = ((list.len() - 1) as f64 * at.clamp(0.0, 1.0)).round() as usize;
    list[place.min(list.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_figure_is_called_so_in_both_forms() {
        let mut report = Report::new("bench");
        report.set("messages_per_minute", "0");
        report.add("a", "ratio", 2.5, "×", Target::AtMost(2.0));
        report.add("b", "rate", 60.0, "/s", Target::AtLeast(50.0));
        assert!(!report.is_good());
        assert_eq!(
            report.to_text(),
            "bench\n  set messages_per_minute: 0\n  \
             ratio            2.50 ×  target ≤ 2         missed\n  \
             rate              60 /s  target ≥ 50        ok\n\
             bench: missed\n"
        );
        let json = report.to_json();
        assert_eq!(json["figures"]["a"]["ok"], json!(false));
        assert_eq!(json["figures"]["b"]["ok"], json!(true));
        assert_eq!(json["ok"], json!(false));
    }

    #[test]
    fn quantiles_are_taken_from_the_sorted_list() {
        let mut list = [3.0, 1.0, 2.0];
        let places = [0.0, 0.5, 1.0].map(|at| quantile(&mut list, at).to_string());
        assert_eq!(places, ["1", "2", "3"]);
        assert_eq!(quantile(&mut [], 0.5).to_string(), "0");
    }
}
