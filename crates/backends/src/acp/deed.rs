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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use aion_agent::host::Rules;
    use aion_agent::leash::LeashConfig;
    use aion_agent::permission::Layer;
    use aion_agent::sandbox::Sandbox;
    use aion_agent::tools::ToolConfig;
    use aion_core::rule::{RuleScope, RuleWord};
    use tempfile::TempDir;

    use super::super::call::CallNews;
    use super::*;

    fn toolbox() -> (Toolbox, TempDir) {
        let workspace = tempfile::tempdir().unwrap();
        let leash =
            LeashConfig { program: "/nonexistent".into(), arguments: Vec::new(), ledger: None };
        let tools = Arc::new(ToolConfig::new(leash, Arc::new(Sandbox::off()), []));
        (Toolbox::new(workspace.path().to_path_buf(), tools), workspace)
    }

    fn deed(told: &Value) -> Deed {
        let mut call = Call::default();
        let mut told = told.clone();
        told["toolCallId"] = json!("c");
        call.learn(CallNews::read(&told.to_string()).unwrap());
        Deed::of(&call, "c", &toolbox().0).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "it reads better where it is called")]
    fn check(told: Value, tool: &str, class: ToolClass, description: &str) {
        let deed = deed(&told);
        let found = (deed.tool.as_str(), deed.class, deed.description.as_str());
        assert_eq!(found, (tool, class, description), "{told}");
    }

    #[test]
    fn a_command_is_one_of_ours_however_it_is_told() {
        let run = |input: Value| json!({ "kind": "execute", "title": "Look", "rawInput": input });
        check(run(json!({ "command": "make all" })), "Bash", ToolClass::Execute, "Run make all");
        check(
            run(json!({ "command": ["/bin/bash", "-lc", "make all"] })),
            "Bash",
            ToolClass::Execute,
            "Run make all",
        );
        check(
            run(json!({ "cmd": ["rm", "my file", "it's"] })),
            "Bash",
            ToolClass::Execute,
            r"Run rm 'my file' 'it'\''s'",
        );
        // One that only looks inside the workspace is known for that, except elsewhere.
        check(run(json!({ "command": "ls" })), "Bash", ToolClass::Read, "Run ls");
        check(
            run(json!({ "command": "ls", "cwd": "/etc" })),
            "Bash",
            ToolClass::Execute,
            "Run ls (in /etc)",
        );
        // Whatever kind an agent says it is.
        let read = json!({ "kind": "read", "title": "Read", "rawInput": { "command": "rm x" } });
        check(read, "Bash", ToolClass::Execute, "Run rm x");
    }

    #[test]
    fn an_edit_has_to_be_seen_and_a_read_is_never_free() {
        let edit = |more: Value| {
            let mut told = json!({ "kind": "edit", "title": "Edit" });
            told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            told
        };
        let named = edit(json!({ "rawInput": { "file_path": "a.rs" } }));
        check(named, "Edit", ToolClass::Edit, "Change a.rs");
        let diff = json!([{ "type": "diff", "path": "b.rs", "newText": "" }]);
        check(edit(json!({ "content": diff })), "Edit", ToolClass::Edit, "Change b.rs");
        let located = edit(json!({ "locations": [{ "path": "a.rs" }] }));
        check(located, "Edit", ToolClass::Execute, "Change a.rs");
        let outside = edit(json!({ "rawInput": { "file_path": "/etc/passwd" } }));
        check(outside, "Edit", ToolClass::Execute, "Change /etc/passwd");
        let guarded = edit(json!({ "rawInput": { "path": ".git/hooks/pre-commit" } }));
        check(guarded, "Edit", ToolClass::Execute, "Change .git/hooks/pre-commit");
        let read = json!({ "kind": "read", "rawInput": { "path": "a.rs" } });
        check(read, "Read", ToolClass::Execute, "Read a.rs");
    }

    #[test]
    fn what_is_not_understood_is_the_widest_and_its_card_is_never_empty() {
        let wide = ToolClass::Execute;
        check(json!({ "kind": "edit", "title": "Edit" }), "edit: Edit", wide, "Edit");
        let tool = json!({ "name": "mcp__x__y", "title": "Do it", "rawInput": { "a": 1 } });
        check(tool, "mcp__x__y", wide, "Do it");
        check(
            json!({ "title": "  " }),
            "an unnamed call (other)",
            wide,
            r#"an unnamed call (other) {"call":"c","kind":"other","title":null}"#,
        );
    }

    #[test]
    fn a_call_without_an_input_is_like_no_other() {
        let action = |id: &str, told: &Value| {
            let mut call = Call::default();
            call.learn(CallNews::read(&told.to_string()).unwrap());
            let (toolbox, workspace) = toolbox();
            let deed = Deed::of(&call, id, &toolbox).unwrap();
            let book = toolbox.book(Rules::default());
            // The workspace is part of what is allowed; here it is not what differs.
            let _ = workspace;
            deed.propose(TurnId(1), id.to_owned(), Path::new("/w"), &book).action
        };
        let untold = json!({ "toolCallId": "c", "title": "Do it" });
        assert_ne!(action("c", &untold), action("d", &untold));
        let told =
            json!({ "toolCallId": "c", "title": "Do it", "rawInput": { "command": "make" } });
        assert_eq!(action("c", &told), action("d", &told));
    }

    #[test]
    fn the_strictest_rule_about_any_file_counts() {
        let (toolbox, _workspace) = toolbox();
        let layer = |word, rule: &str| Layer {
            word,
            rule: rule.parse().unwrap(),
            scope: RuleScope::User,
            grant: None,
        };
        let layers =
            vec![layer(RuleWord::Allow, "Edit(*.rs)"), layer(RuleWord::Deny, "Edit(secret.rs)")];
        let book = toolbox.book(Rules { layers, fault: None });
        let says = |paths: &[&str]| {
            let diffs = paths.iter().map(|path| json!({ "type": "diff", "path": path }));
            let told =
                json!({ "toolCallId": "c", "kind": "edit", "content": diffs.collect::<Vec<_>>() });
            let mut call = Call::default();
            call.learn(CallNews::read(&told.to_string()).unwrap());
            let deed = Deed::of(&call, "c", &toolbox).unwrap();
            let proposal = deed.propose(TurnId(1), "c".to_owned(), toolbox.workspace(), &book);
            proposal.finding.map(|finding| finding.says)
        };
        assert_eq!(says(&["a.rs"]), Some(RuleWord::Allow));
        assert_eq!(says(&["a.rs", "notes.md"]), None);
        assert_eq!(says(&["a.rs", "secret.rs"]), Some(RuleWord::Deny));
    }
}
