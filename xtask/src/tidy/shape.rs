//! How files and names look: length, opening sentence, words that say nothing, paths of a machine.

use std::path::Path;

use super::{CRATES, Law, Source, Tree, Violation};

/// A file longer than this is two nouns.
const LONGEST: usize = 600;

/// Files that may be longer, each with its own limit and reason.
const LONGER: &[(&str, usize, &str)] = &[];

/// File and directory names that say nothing.
const EMPTY_FILES: [&str; 7] = ["utils", "util", "helpers", "helper", "manager", "misc", "common"];
/// Ends of type names that say nothing.
const EMPTY_ENDS: [&str; 6] = ["Manager", "Helper", "Helpers", "Util", "Utils", "Impl"];
/// What introduces a type's name.
const TYPES: [&str; 4] = ["struct ", "enum ", "trait ", "type "];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for source in tree.sources() {
        check_length(source, &mut found);
        check_opening(source, &mut found);
        check_door(source, &mut found);
        check_names(source, &mut found);
    }
    for (path, _, _) in LONGER {
        let needed = tree.text(path).is_some_and(|text| text.lines().count() > LONGEST);
        if !needed {
            let instead =
                "needs no exception any more: take it out of LONGER in xtask/src/tidy/shape.rs";
            found.push(Violation::new(Law::StaleList, path, 1, instead));
        }
    }
    for member in &CRATES {
        check_crate_doc(tree, member, &mut found);
    }
    for (path, text) in tree.texts() {
        check_paths(path, text, &mut found);
    }
    found
}

fn check_length(source: &Source, found: &mut Vec<Violation>) {
    let most = LONGER.iter().find(|(path, _, _)| *path == source.path).map_or(LONGEST, |l| l.1);
    let length = source.text.lines().count();
    if length > most && source.path.contains("src/") {
        let instead = format!("{length} lines, {most} are allowed: split it by noun");
        found.push(Violation::new(Law::FileSize, &source.path, length, instead));
    }
}

fn check_opening(source: &Source, found: &mut Vec<Violation>) {
    let first = source
        .text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with("#!["))
        .unwrap_or_default();
    let sentence = first.strip_prefix("//! ").unwrap_or_default();
    if sentence.len() <= 3 {
        let instead =
            "open the file with `//!` and one sentence: what it is, and what it never does";
        found.push(Violation::new(Law::ModuleDoc, &source.path, 1, instead));
    }
}

/// What `lib.rs` and `mod.rs` leave to the files of nouns.
const NO_DOOR: [&str; 6] = ["fn", "struct", "enum", "trait", "impl", "const"];

fn check_door(source: &Source, found: &mut Vec<Violation>) {
    let file = source.path.rsplit('/').next().unwrap_or_default();
    if file != "lib.rs" && file != "mod.rs" {
        return;
    }
    let first = source.lines().find(|(number, line)| {
        !source.is_test(*number) && NO_DOOR.iter().any(|word| super::scan::holds_word(line, word))
    });
    if let Some((number, _)) = first {
        let instead =
            format!("{file} holds docs and re-exports: move this to the file of its noun");
        found.push(Violation::new(Law::Doors, &source.path, number, instead));
    }
}

fn check_names(source: &Source, found: &mut Vec<Violation>) {
    let stems = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    if stems.into_iter().any(|stem| EMPTY_FILES.contains(&stem)) {
        let instead = "name the file for the noun that it holds";
        found.push(Violation::new(Law::Names, &source.path, 1, instead));
    }
    for (number, line) in source.lines() {
        for keyword in TYPES {
            let Some(at) = line.find(keyword) else {
                continue;
            };
            // "type " may be the end of a word.
            if line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let name: String = line[at + keyword.len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if let Some(end) = EMPTY_ENDS.iter().find(|end| name.ends_with(**end)) {
                let instead = format!("`{name}`: say what it is; \"{end}\" says nothing");
                found.push(Violation::new(Law::Names, &source.path, number, instead));
            }
        }
    }
}

fn check_crate_doc(tree: &Tree, member: &super::Member, found: &mut Vec<Violation>) {
    for file in ["lib.rs", "main.rs"] {
        let path = format!("{}/src/{file}", member.directory);
        let Some(text) = tree.text(&path) else {
            continue;
        };
        let first = text.lines().next().unwrap_or_default();
        let expected = format!("//! {}.", member.doc);
        if first != expected {
            let instead = format!("the first line has to be `{expected}`");
            found.push(Violation::new(Law::CrateDoc, &path, 1, instead));
        }
        // A package with both has its line in the library.
        return;
    }
}

/// Beginnings of paths that only one machine has. In two parts, so that this file has none.
const MACHINE: [(&str, &str); 4] =
    [("/wo", "rk/"), ("/ro", "ot/"), ("/ho", "me/"), ("/Use", "rs/")];

fn check_paths(path: &str, text: &str, found: &mut Vec<Violation>) {
    // Examples in documents may show somebody's home.
    let is_document = Path::new(path).extension().is_some_and(|ending| ending == "md");
    for (index, line) in text.lines().enumerate() {
        for (begin, end) in MACHINE {
            let place = format!("{begin}{end}");
            let example = is_document && (begin == "/ho" || begin == "/Use");
            let named = line.match_indices(&place).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/~}".contains(c))
            });
            if named && !example {
                let instead =
                    format!("`{place}…` exists on one machine: build the path from what is given");
                found.push(Violation::new(Law::MachinePath, path, index + 1, instead));
            }
        }
    }
}
