//! Commands that only look, and look inside the workspace alone; what is not known to is not one.

use super::paths::candidates;
use super::script::{Part, Script};
use super::words::Word;

/// Variables that a command may be given without doing something else because of it.
const HARMLESS: [&str; 16] = [
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "CI",
    "LANG",
    "LC_ALL",
    "LC_COLLATE",
    "TZ",
    "TERM",
    "COLUMNS",
    "PYTHONUNBUFFERED",
];

/// Commands that only read what their words name. Each word is looked at as a path.
const READERS: [&str; 41] = [
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "pwd",
    "echo",
    "printf",
    "true",
    "false",
    ":",
    "test",
    "[",
    "which",
    "type",
    "file",
    "stat",
    "du",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "uname",
    "nproc",
    "cut",
    "tr",
    "diff",
    "cmp",
    "comm",
    "column",
    "nl",
    "rev",
    "tac",
    "fold",
    "paste",
    "seq",
    "sleep",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "od",
];

/// Commands of git that only look, with the options that make them do more.
const GIT: [&str; 17] = [
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "shortlog",
    "describe",
    "rev-parse",
    "rev-list",
    "ls-files",
    "ls-tree",
    "cat-file",
    "merge-base",
    "name-rev",
    "for-each-ref",
    "show-ref",
    "grep",
];

/// Whether the variables that a part sets change nothing but what is written with them. For a command
/// they are in its environment; set for themselves they stay in the shell, as long as no program
/// looks for them there.
pub(super) fn sets_harmlessly(part: &Part) -> bool {
    part.sets.iter().all(|name| {
        HARMLESS.contains(&name.as_str()) || (part.words.is_empty() && is_of_the_shell(name))
    })
}

/// Names that scripts use for themselves: in lower case, and none that a program is known to read.
fn is_of_the_shell(name: &str) -> bool {
    let read = ["proxy", "npm_", "pip_", "cargo_", "git_", "histchars", "auto_resume"];
    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !read.iter().any(|read| name.contains(read))
}

/// Whether nothing happens to what is written there.
pub(super) fn is_nowhere(word: &Word) -> bool {
    matches!(word.plain(), Some("/dev/null" | "/dev/stdout" | "/dev/stderr"))
}

/// Which parts of a script only look, inside the workspace. `inside` says whether a path, links
/// followed, leads to somewhere inside.
#[must_use]
pub(super) fn looks(script: &Script, inside: &dyn Fn(&str) -> bool) -> Vec<bool> {
    let moves: Vec<&Part> = script
        .parts
        .iter()
        .filter(|part| matches!(part.name(), Some("cd" | "pushd" | "popd")))
        .collect();
    let base = match moves.as_slice() {
        [] => Some(None),
        [only] => target(only).filter(|to| inside(to)).map(Some),
        // Where it is after several moves is not followed.
        _ => None,
    };
    let Some(base) = base else { return vec![false; script.parts.len()] };
    let inside = |text: &str| {
        inside(text)
            && base.is_none_or(|base| inside(&format!("{base}/{text}")) || text.starts_with('/'))
    };
    script
        .parts
        .iter()
        .map(|part| {
            opens_harmlessly(part, &inside)
                && sets_harmlessly(part)
                && (part.words.is_empty()
                    || part.only_runs
                    || (part.name() == Some("cd") && base.is_some())
                    || only_looks(part, &inside))
        })
        .collect()
}

/// Where `cd` leads, where that is plain and down.
fn target(part: &Part) -> Option<&str> {
    let [name, to] = part.words.as_slice() else { return None };
    let to = to.plain()?;
    let down = !to.starts_with('-') && !to.split('/').any(|part| part == "..") && !to.is_empty();
    (name.plain() == Some("cd") && down).then_some(to)
}

fn opens_harmlessly(part: &Part, inside: &dyn Fn(&str) -> bool) -> bool {
    part.opens.iter().all(|opened| {
        is_nowhere(&opened.path) || (!opened.writes && opened.path.plain().is_some_and(inside))
    })
}

fn only_looks(part: &Part, inside: &dyn Fn(&str) -> bool) -> bool {
    let words: Option<Vec<&str>> = part.words.iter().map(Word::plain).collect();
    let Some(words) = words else { return false };
    let [name, words @ ..] = words.as_slice() else { return false };
    let within = || words.iter().all(|word| is_within(word, inside));
    let has = |bad: &[&str]| {
        words.iter().any(|word| {
            let option = word.split('=').next().unwrap_or_default();
            bad.iter().any(|bad| match bad.strip_prefix("--") {
                // Long options may be shortened.
                Some(_) => option.len() > 2 && bad.starts_with(option),
                None => {
                    !word.starts_with("--") && word.starts_with('-') && word.contains(&bad[1..])
                }
            })
        })
    };
    let plain = words.iter().filter(|word| !word.starts_with('-')).count();
    match *name {
        "pwd" | "true" | "false" | ":" | "echo" | "nproc" | "uname" | "seq" | "sleep" => true,
        // They look a name up that may hold a command.
        "test" | "[" => !has(&["-v", "-R"]) && within(),
        "printf" => !words.first().is_some_and(|word| word.starts_with("-v")),
        "file" => !has(&["-C", "--compile", "-m", "--magic-file"]) && within(),
        "du" | "wc" => !has(&["--files0-from"]) && within(),
        "tail" => !has(&["-f", "-F", "--follow", "--retry"]) && within(),
        name if READERS.contains(&name) => within(),
        "command" => matches!(words.first(), Some(&("-v" | "-V"))),
        "date" => words.iter().all(|word| word.starts_with('+') || matches!(*word, "-u" | "-I")),
        "sort" => {
            !has(&[
                "-o",
                "--output",
                "--compress-program",
                "-T",
                "--temporary-directory",
                "--files0-from",
            ]) && within()
        }
        "uniq" => plain <= 1 && within(),
        "tree" => !has(&["-o", "-l", "--output", "--fromfile"]) && within(),
        "grep" | "egrep" | "fgrep" => !has(&["-R", "--dereference-recursive"]) && within(),
        "rg" => {
            !has(&["--pre", "--hostname-bin", "-z", "--search-zip", "-L", "--follow"]) && within()
        }
        "find" => {
            !words.iter().any(|word| {
                word.starts_with("-exec")
                    || word.starts_with("-ok")
                    || word.starts_with("-fprint")
                    || matches!(*word, "-delete" | "-fls" | "-L" | "-follow" | "-files0-from")
            }) && within()
        }
        "sed" => sed_prints(words) && within(),
        "git" => git_looks(words) && within(),
        _ => false,
    }
}

/// A word names nothing outside, whichever way the command reads it.
fn is_within(word: &str, inside: &dyn Fn(&str) -> bool) -> bool {
    candidates(word).into_iter().all(|candidate| {
        let is_option = candidate.starts_with('-') && !candidate.contains('/');
        is_option || inside(candidate)
    })
}

/// `sed -n '1,20p' file`: the only script that is known to do nothing but print.
fn sed_prints(words: &[&str]) -> bool {
    match words {
        ["-n", script, ..] => {
            let rest = script.trim_end_matches('p');
            !rest.is_empty()
                && rest.len() + 1 == script.len()
                && rest.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '$'))
                && !words.iter().skip(2).any(|word| word.starts_with('-'))
        }
        _ => false,
    }
}

fn git_looks(words: &[&str]) -> bool {
    let words: &[&str] = match words {
        ["--no-pager" | "-P", rest @ ..] => rest,
        all => all,
    };
    let [command, rest @ ..] = words else { return false };
    let only = |allowed: &[&str]| rest.iter().all(|word| allowed.contains(word));
    match *command {
        command if GIT.contains(&command) => {
            const MORE: [&str; 7] = [
                "--output",
                "--ext-diff",
                "--open-files-in-pager",
                "--no-index",
                "--textconv",
                "--filters",
                "--show-signature",
            ];
            !rest.iter().any(|word| {
                let option = word.split('=').next().unwrap_or_default();
                // Long options may be shortened, and short ones put together.
                let more = |bad: &&str| bad.starts_with(option) || option.starts_with(*bad);
                let pages = command == "grep" && !word.starts_with("--") && word.contains('O');
                (option.len() > 4 && option.starts_with("--") && MORE.iter().any(more))
                    || (word.starts_with('-') && pages)
            })
        }
        "branch" => only(&[
            "--list",
            "-a",
            "-r",
            "-v",
            "-vv",
            "--all",
            "--remotes",
            "--show-current",
            "--verbose",
        ]),
        "tag" => only(&["-l", "--list", "-n"]),
        "remote" => only(&["-v", "--verbose"]),
        "stash" => matches!(rest, ["list" | "show"] | ["show", "-p"]),
        "worktree" => rest == ["list"],
        "reflog" => rest.is_empty() || rest == ["show"],
        _ => false,
    }
}
