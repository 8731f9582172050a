//! Holds the documentation to the real binary: commands that pages show are understood, the quick
//! start works, and the list of commands is made from the help; it never judges what a page says.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::python::target;
use crate::steps::{self, Done, Step};

const QUICK_START: &str = "docs/quick-start.md";
const COMMANDS: &str = "docs/commands.md";
const BEGIN: &str = "<!-- made from the help: commands -->\n";
const END: &str = "<!-- end -->";
/// Options that most commands have; the page tells of them once.
const COMMON: [&str; 9] = [
    "--json",
    "--log-format",
    "--help",
    "--version",
    "--url",
    "--token",
    "--ca",
    "--data-dir",
    "--team",
];
/// How long something that another process does may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Checks the pages with a binary, or with one that is built; `write` makes the list anew.
pub fn check(root: &Path, binary: Option<&Path>, write: bool) -> Result<Done> {
    let aion = if let Some(binary) = binary {
        binary.to_path_buf()
    } else {
        steps::run(root, &Step::cargo("binary", &["build", "--locked", "-p", "aion"]))?;
        target(root).join("debug").join("aion")
    };
    steps::tell("\n==> pages: cargo xtask pages");
    let begun = Instant::now();
    let place = Place::new(aion.canonicalize().context("there is no such binary")?)?;
    let listed = list(root, &place, write)?;
    let shown = understood(root, &place)?;
    let walked = walk(root, &place)?;
    let line = format!(
        "pages: {listed} commands listed, {shown} command lines understood, {walked} of the quick start run"
    );
    steps::say(&line);
    Ok(Done { name: "pages", took: begun.elapsed(), lines: vec![line] })
}

/// A home and a workspace for commands, apart from everything else; gone at the end.
struct Place {
    aion: PathBuf,
    root: PathBuf,
}

impl Place {
    fn new(aion: PathBuf) -> Result<Self> {
        let root = env::temp_dir().join(format!("aion-pages-{}", std::process::id()));
        let place = Self { aion, root };
        for part in ["home", "work"] {
            fs::create_dir_all(place.root.join(part)).context("make a place to try commands in")?;
        }
        Ok(place)
    }

    fn run(&self, words: &[String]) -> Result<Output> {
        let mut command = Command::new(&self.aion);
        command.args(words).current_dir(self.root.join("work")).stdin(Stdio::null()).env_clear();
        command.env("HOME", self.root.join("home")).env("LANG", "C.UTF-8");
        command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
        command.output().with_context(|| format!("start {}", self.aion.display()))
    }

    /// Runs a command that has to succeed, and gives its output.
    fn succeed(&self, words: &[String]) -> Result<String> {
        let output = self.run(words)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`aion {}`: {}", words.join(" "), said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Where a daemon was left behind by a failure, it is not to outlive its home.
        let _ = self.run(&["stop".to_owned(), "--now".to_owned()]);
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// What the help says of one command.
struct Help {
    about: String,
    arguments: String,
    options: Vec<String>,
}

/// Holds the list of commands to the help, and says how many there are.
fn list(root: &Path, place: &Place, write: bool) -> Result<usize> {
    let mut helps = BTreeMap::new();
    read_help(place, &[], &mut helps)?;
    let path = root.join(COMMANDS);
    let page = fs::read_to_string(&path).with_context(|| format!("{COMMANDS} cannot be read"))?;
    let (before, rest) = page.split_once(BEGIN).context("the list of commands has no beginning")?;
    let (rows, after) = rest.split_once(END).context("the list of commands has no end")?;
    if write {
        fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table(&helps)))?;
        return Ok(helps.len());
    }
    for row in rows.lines().filter(|row| row.starts_with("| `aion ")) {
        let name = command_name(row.split('`').nth(1).unwrap_or_default());
        let help = helps.get(&name);
        let has = |option: &String| help.is_some_and(|help| help.options.contains(option));
        let options = row.rsplit(" | ").next().unwrap_or_default().replace("\\|", "|");
        let stale = options.split('`').skip(1).step_by(2).map(str::to_owned).find(|o| !has(o));
        let what = stale.as_ref().map_or(name.clone(), |option| format!("{name} {option}"));
        ensure!(
            help.is_some() && stale.is_none(),
            "{COMMANDS}: there is no `aion {what}`; cargo xtask pages --write makes the list anew"
        );
    }
    Ok(helps.len())
}

fn read_help(place: &Place, path: &[String], helps: &mut BTreeMap<String, Help>) -> Result<()> {
    let text = place.succeed(&[path, &["-h".to_owned()]].concat())?;
    let children = section(&text, "Commands:").filter_map(|line| {
        line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split(' ').next()
    });
    let mut leaf = true;
    for child in children.filter(|child| *child != "help") {
        leaf = false;
        read_help(place, &[path, &[child.to_owned()]].concat(), helps)?;
    }
    if leaf {
        let about = text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        let usage = text.lines().find_map(|line| line.strip_prefix("Usage: ")?.split_once(' '));
        let name = path.join(" ");
        let arguments = usage.unwrap_or_default().1.replacen(&name, "", 1).replace("[OPTIONS]", "");
        let options = section(&text, "Options:")
            .filter_map(option)
            .filter(|option| !COMMON.contains(&option.split(' ').next().unwrap_or_default()));
        let help =
            Help { about, arguments: arguments.trim().to_owned(), options: options.collect() };
        helps.insert(name, help);
    }
    Ok(())
}

/// The lines below a heading, up to an empty one.
fn section<'a>(text: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    text.lines()
        .skip_while(move |line| *line != heading)
        .skip(1)
        .take_while(|line| !line.is_empty())
}

/// The long name of the option that a line of help begins with, and what it takes.
fn option(line: &str) -> Option<String> {
    let mut words = line.trim_start().split(' ').filter(|word| !word.ends_with(','));
    if line.len() - line.trim_start().len() > 6 {
        return None;
    }
    let name = words.next().filter(|word| word.starts_with("--"))?;
    let value = words.next().filter(|word| word.starts_with('<'));
    Some(value.map_or(name.to_owned(), |value| format!("{name} {value}")))
}

fn table(helps: &BTreeMap<String, Help>) -> String {
    let mut rows = "| Command | What it does | Options of its own |\n|---|---|---|\n".to_owned();
    for (name, Help { about, arguments, options }) in helps {
        let space = if arguments.is_empty() { "" } else { " " };
        let options: Vec<_> = options.iter().map(|option| format!("`{option}`")).collect();
        let cells = [format!("`aion {name}{space}{arguments}`"), about.clone(), options.join(", ")];
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        rows += &["| ", &cells.join(" | "), " |\n"].concat();
    }
    rows
}

/// The command's own words of a span like `aion team stop [TEAM]`.
fn command_name(span: &str) -> String {
    let words = span.split(' ').skip(1);
    words
        .take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Has the binary read every command line that pages show, and says how many there are.
fn understood(root: &Path, place: &Place) -> Result<usize> {
    let mut pages = vec![root.join("README.md")];
    for entry in fs::read_dir(root.join("docs")).context("docs cannot be read")? {
        pages.push(entry?.path());
    }
    let mut lines = BTreeSet::new();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|ending| ending == "md")) {
        let text = fs::read_to_string(page)?;
        lines.extend(command_lines(&text));
    }
    for words in &lines {
        // The help is shown after all that stands before was understood.
        place.succeed(&[&words[..], &["--help".to_owned()]].concat())?;
    }
    Ok(lines.len())
}

/// The command lines of a page's fenced code, as words without the program's name.
fn command_lines(text: &str) -> Vec<Vec<String>> {
    let fenced = text.split("```").skip(1).step_by(2);
    let lines = fenced.flat_map(str::lines).filter_map(|line| line.strip_prefix("aion "));
    lines.map(words).collect()
}

/// The words of a line, up to a comment; what stands in double quotes is one word.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or_default();
    let parts = line.split('"').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}

/// Runs what the quick start shows, in its order, and says how many commands that were.
fn walk(root: &Path, place: &Place) -> Result<usize> {
    let page = fs::read_to_string(root.join(QUICK_START))?;
    let script = page
        .split_once("```toml\n")
        .and_then(|(_, rest)| rest.split("```").next())
        .context("the quick start has no scenario")?;
    fs::write(place.root.join("work").join("hello.toml"), script)?;
    let work = place.root.join("work").display().to_string();
    ensure!(steps::answers(root, "git", &["init", "--quiet", &work]), "git init failed");
    let mut run = 0;
    for words in command_lines(&page) {
        let is = |parts: &[&str]| words.iter().zip(parts).all(|(word, part)| word == part);
        let detached = words.iter().any(|word| word == "--detach");
        let asks = is(&["demo"]) || is(&["team", "undo"]) || is(&["run"]) && !detached;
        let answered = if asks { &["--yes".to_owned()][..] } else { &[] };
        if is(&["attach"]) {
            // It follows until somebody ends it.
            continue;
        }
        if is(&["approve", "yes"]) {
            wait_for_a_request(place)?;
        }
        place.succeed(&[&words[..], answered].concat())?;
        run += 1;
    }
    Ok(run)
}

fn wait_for_a_request(place: &Place) -> Result<()> {
    let begun = Instant::now();
    let list = ["approve", "ls", "--json"].map(str::to_owned);
    while place.succeed(&list)?.trim() == "[]" {
        ensure!(begun.elapsed() < PATIENCE, "the team of the quick start asks for nothing");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_pages_are_read_as_a_shell_reads_them() {
        let page = "`aion no`\n```\naion run \"Write hello\" --detach   # begin\ngit init\n```\n\
                    aion no\n```\naion status\n```\n";
        let expected = [vec!["run", "Write hello", "--detach"], vec!["status"]];
        assert_eq!(command_lines(page), expected);
    }

    #[test]
    fn options_are_read_from_their_lines_alone() {
        let lines = [
            ("  -y, --yes        Answer", Some("--yes")),
            ("      --dir <DIR>  Work in", Some("--dir <DIR>")),
            ("                   --keep too", None),
            ("  <TEAM>  The team", None),
        ];
        for (line, expected) in lines {
            assert_eq!(option(line).as_deref(), expected);
        }
        assert_eq!(command_name("aion team stop [TEAM]"), "team stop");
    }
}
