//! Standard output: lines, tables and JSON; what agents wrote is cleaned before it gets there.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Failure;
use crate::terminal::clean_text;

/// Writes a line for people.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

/// Writes a value as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    line(&text)
}

/// Writes a table for people: columns as wide as their widest cell, the last one as it is.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean_text(cell)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = io::stdout().lock();
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    for row in std::iter::once(&head).chain(&rows) {
        let mut text = String::new();
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            text.push_str(cell);
            if at + 1 < row.len() {
                let gap = width - cell.chars().count() + 2;
                text.extend(std::iter::repeat_n(' ', gap));
            }
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    Ok(())
}
