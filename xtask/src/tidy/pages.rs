//! The pages of the documentation stay true: links lead somewhere, every page is in the book, and
//! tests that are named exist; it never reads what a page says.

use super::{CRATES, Law, Tree, Violation};

const CONTENTS: &str = "docs/SUMMARY.md";
/// Pages of the repository's root that lead on to others.
const ROOT_PAGES: [&str; 4] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let contents = tree.text(CONTENTS).unwrap_or_default();
    for (path, text) in tree.texts().filter(|(path, _)| is_page(path)) {
        for (number, line) in prose(text) {
            for target in links(line) {
                if !leads_somewhere(tree, path, target) {
                    let instead = format!("there is no {target}: name a file of this repository");
                    found.push(Violation::new(Law::Pages, path, number, instead));
                }
            }
            for name in spans(line).filter(|span| names_a_test(span)) {
                if !is_test(tree, name) {
                    let instead =
                        format!("there is no test `{name}`: name it as the test runner does");
                    found.push(Violation::new(Law::Pages, path, number, instead));
                }
            }
        }
        // Decisions have a list of their own.
        let chapter = path.strip_prefix("docs/").filter(|chapter| !chapter.contains('/'));
        if let Some(chapter) = chapter
            .filter(|chapter| path != CONTENTS && !contents.contains(&format!("({chapter})")))
        {
            let instead = format!("add a line with ({chapter}) to {CONTENTS}");
            found.push(Violation::new(Law::Pages, path, 1, instead));
        }
    }
    found
}

fn is_page(path: &str) -> bool {
    ROOT_PAGES.contains(&path)
        || path.starts_with("docs/")
            && path.rsplit_once('.').is_some_and(|(_, ending)| ending == "md")
}

/// The lines outside of fenced code, from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number, line))
    })
}

/// The targets of a line's links.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Whether a link of a page leads to a file or directory; other places are not looked at.
fn leads_somewhere(tree: &Tree, page: &str, target: &str) -> bool {
    let target = target.split('#').next().unwrap_or_default();
    if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<_> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." if parts.pop().is_none() => return false,
            "" | "." | ".." => {}
            name => parts.push(name),
        }
    }
    tree.holds(&parts.join("/"))
}

/// A test as the runner prints it: `aion-core::it mail::name`, or `aion-core id::tests::name`.
fn names_a_test(span: &str) -> bool {
    span.split_once(' ').is_some_and(|(binary, path)| {
        directory(binary.split("::").next().unwrap_or_default()).is_some() && path.contains("::")
    })
}

fn is_test(tree: &Tree, name: &str) -> bool {
    let Some((binary, path)) = name.split_once(' ') else { return false };
    let (package, target) = binary.split_once("::").unwrap_or((binary, ""));
    let Some(directory) = directory(package) else { return false };
    let mut parts: Vec<_> = path.split("::").filter(|part| *part != "tests").collect();
    let function = format!("fn {}(", parts.pop().unwrap_or_default());
    let file = match target {
        "" | "bin/aion" => format!("{directory}/src/{}.rs", parts.join("/")),
        target => format!("{directory}/tests/{target}/{}.rs", parts.join("/")),
    };
    let Some(source) = tree.sources().iter().find(|source| source.path == file) else {
        return false;
    };
    source.lines().any(|(number, line)| line.contains(&function) && source.is_test(number))
}

fn directory(package: &str) -> Option<&'static str> {
    CRATES.iter().find(|member| member.package == package).map(|member| member.directory)
}
