//! What a call of a foreign agent would do, as far as it can be known, in the words of our own tools,
//! so that the same rules meet it; what is not understood counts as the widest.

use std::path::Path;

use aion_agent::permission::{Rulebook, Subject};
use aion_agent::tools::{Prepared, Toolbox, shown_input};
use aion_core::command::ToolProposal;
use aion_core::hash::ActionHash;
use aion_core::id::{CallId, TurnId};
use aion_core::message::shorten;
use aion_core::permission::ToolClass;
use aion_core::rule::{Finding, RuleWord};
use serde_json::{Value, json};

use super::call::Call;

/// The longest name of a tool.
const NAME_BYTES: usize = 120;
/// The most bytes of a description.
const DESCRIPTION_BYTES: usize = 1_000;
/// Fields of an input that name a file, by the agents that use them.
const FILES: [&str; 7] =
    ["file_path", "path", "filePath", "abs_path", "absolute_path", "target_file", "notebook_path"];
/// Fields of an input that say where a command runs.
const PLACES: [&str; 4] = ["cwd", "workdir", "working_directory", "directory"];

/// What a call would do.
#[derive(Debug)]
pub(super) struct Deed {
    /// The tool: one of ours, where it is understood.
    pub(super) tool: String,
    class: ToolClass,
    subjects: Vec<Subject>,
    /// What it would do, in one line.
    pub(super) description: String,
    /// Its input; with the call's own id where there is none, so that no decision on it counts for
    /// another call.
    input: Value,
}

impl Deed {
    /// What a call would do. An error says why nobody can judge it.
    pub(super) fn of(call: &Call, id: &str, toolbox: &Toolbox) -> Result<Self, String> {
        let given = call.input();
        let unnamed = || json!({ "title": call.title(), "kind": call.kind(), "call": id });
        let input = given.cloned().unwrap_or_else(unnamed);
        let understood = match (given.and_then(command), call.kind()) {
            (Some(command), kind) if kind != "edit" => {
                Some(("Bash", vec![toolbox.prepare("Bash", &json!({ "command": command }))?]))
            }
            (_, "edit") => files(call, toolbox, "Write", &["content"])?.map(|all| ("Edit", all)),
            (_, "read") => files(call, toolbox, "Read", &[])?.map(|all| ("Read", all)),
            (_, "fetch") => fetch(given, toolbox)?.map(|all| ("WebFetch", all)),
            _ => None,
        };
        let Some((tool, prepared)) = understood else { return Ok(Self::unknown(call, input)) };
        let mut class = prepared.iter().map(|one| one.class).max().unwrap_or(ToolClass::Execute);
        let elsewhere = given.and_then(|input| place(input, toolbox.workspace()));
        // What an agent says of a call's kind is no ground to let it read, or to let it run somewhere
        // else; that it edits has to be seen in the call.
        if (tool == "Read" || elsewhere.is_some()) || (tool == "Edit" && !shows_edit(call)) {
            class = ToolClass::Execute;
        }
        let mut description = match tool {
            "Edit" => format!("Change {}", call_paths(call).join(", ")),
            _ => prepared.iter().map(|one| &*one.description).collect::<Vec<_>>().join("; "),
        };
        if let Some(place) = elsewhere {
            description.extend([" (in ", place, ")"]);
        }
        Ok(Self {
            tool: tool.to_owned(),
            class,
            subjects: prepared.into_iter().map(|one| one.subject).collect(),
            description: shorten(&description, DESCRIPTION_BYTES),
            input,
        })
    }

    fn unknown(call: &Call, input: Value) -> Self {
        let title =
            call.title().map(|title| title.split_whitespace().collect::<Vec<_>>().join(" "));
        let tool = match (call.tool(), &title) {
            (Some(tool), _) => tool.to_owned(),
            (None, Some(title)) => format!("{}: {title}", call.kind()),
            (None, None) => format!("an unnamed call ({})", call.kind()),
        };
        let description = match title {
            Some(title) => title,
            None => format!("{tool} {}", shown_input(&input)),
        };
        Self {
            tool: shorten(&tool, NAME_BYTES),
            class: ToolClass::Execute,
            subjects: vec![Subject::Other],
            description: shorten(&description, DESCRIPTION_BYTES),
            input,
        }
    }

    /// Whether it may change something in the world.
    pub(super) fn changes(&self) -> bool {
        self.tool != "Read" && self.class != ToolClass::Read
    }

    /// The call as the team judges it.
    pub(super) fn propose(
        &self,
        turn: TurnId,
        call: CallId,
        workspace: &Path,
        book: &Rulebook,
    ) -> ToolProposal {
        let cwd = workspace.display().to_string();
        let findings = self.subjects.iter();
        let findings = findings.map(|subject| book.judge(&self.tool, subject, self.class));
        let suggestion = match &*self.subjects {
            [subject] => book.suggestion(&self.tool, subject, self.class),
            _ => None,
        };
        ToolProposal {
            turn,
            call,
            tool: self.tool.clone(),
            class: self.class,
            action: ActionHash::of_tool(&self.tool, &self.input, &cwd),
            description: self.description.clone(),
            input: shown_input(&self.input),
            kin: self.subjects.iter().flat_map(|subject| subject.kin(&cwd)).collect(),
            cwd,
            finding: strictest(findings),
            suggestion,
        }
    }
}

/// What counts of all that the rules say: a "no", then a question, then that nothing is said.
fn strictest(findings: impl Iterator<Item = Option<Finding>>) -> Option<Finding> {
    let rank = |finding: &Option<Finding>| match finding.as_ref().map(|finding| finding.says) {
        Some(RuleWord::Deny) => 0,
        Some(RuleWord::Ask) => 1,
        None => 2,
        Some(RuleWord::Allow) => 3,
    };
    findings.min_by_key(rank).flatten()
}

/// The command that an input holds: a line for a shell, or words.
fn command(input: &Value) -> Option<String> {
    let found = ["command", "cmd"].iter().find_map(|field| input.get(field))?;
    if let Some(line) = found.as_str() {
        return Some(line.to_owned());
    }
    let words: Option<Vec<&str>> = found.as_array()?.iter().map(Value::as_str).collect();
    let words = words.filter(|words| !words.is_empty())?;
    let shell = |word: &str| matches!(word.rsplit('/').next(), Some("bash" | "sh" | "zsh"));
    Some(match &*words {
        [program, "-c" | "-lc", line] if shell(program) => (*line).to_owned(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    })
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The files of a call, each as a call of one of our tools; none where it names none.
fn files(
    call: &Call,
    toolbox: &Toolbox,
    tool: &str,
    empty: &[&str],
) -> Result<Option<Vec<Prepared>>, String> {
    let paths = call_paths(call);
    let prepare = |path: &String| {
        let mut input = json!({ "file_path": path });
        for field in empty {
            input[field] = json!("");
        }
        toolbox.prepare(tool, &input)
    };
    let prepared: Vec<Prepared> = paths.iter().map(prepare).collect::<Result<_, _>>()?;
    Ok((!prepared.is_empty()).then_some(prepared))
}

fn call_paths(call: &Call) -> Vec<String> {
    let named = FILES.iter().filter_map(|field| call.input()?.get(field)?.as_str());
    let mut paths = call.paths().to_vec();
    for path in named {
        if !paths.iter().any(|known| known == path) {
            paths.push(path.to_owned());
        }
    }
    paths
}

/// Whether it is to be seen that a call changes the files that it names.
fn shows_edit(call: &Call) -> bool {
    let names_file = |input: &Value| FILES.iter().any(|field| input[field].is_string());
    call.changes() || call.input().is_some_and(names_file)
}

fn fetch(input: Option<&Value>, toolbox: &Toolbox) -> Result<Option<Vec<Prepared>>, String> {
    let Some(url) = input.and_then(|input| input["url"].as_str()) else { return Ok(None) };
    toolbox.prepare("WebFetch", &json!({ "url": url })).map(|one| Some(vec![one]))
}

/// Where a command runs, if that is not the workspace.
fn place<'a>(input: &'a Value, workspace: &Path) -> Option<&'a str> {
    let place = PLACES.iter().find_map(|field| input.get(field)?.as_str())?;
    let place_is_workspace =
        workspace.join(place).canonicalize().ok() == workspace.canonicalize().ok();
    (!place_is_workspace).then_some(place)
}
