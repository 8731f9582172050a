//! Commands that run another command: looked through where what they run is plain, else not known.

use super::script::{Part, Reader};
use super::words::Word;

/// Commands whose later words may be a command too, in a form that is not looked through.
const MAY_RUN_REST: [&str; 22] = [
    "watch",
    "parallel",
    "entr",
    "script",
    "strace",
    "ltrace",
    "chroot",
    "unshare",
    "nsenter",
    "su",
    "runuser",
    "flock",
    "systemd-run",
    "at",
    "batch",
    "ssh",
    "docker",
    "podman",
    "perf",
    "gdb",
    "busybox",
    "toybox",
];

impl Reader<'_> {
    /// Takes a single command up, and what it runs.
    pub(super) fn simple(&mut self, mut part: Part) {
        let Some(first) = part.words.first() else {
            self.part(part);
            return;
        };
        let Some(name) = first.plain().map(str::to_owned) else {
            // A name with the home directory in it is plain enough to be met by a rule that denies.
            self.computed("the name of a command in it is computed");
            self.part(part);
            return;
        };
        let base = name.rsplit('/').next().unwrap_or(&name).to_owned();
        match base.as_str() {
            "eval" => self.script_of(part, 1),
            "source" | "." => {
                self.computed("it runs a file in its own shell");
                self.part(part);
            }
            "trap" => self.trap(part),
            "exec" | "command" | "builtin" | "nohup" | "setsid" | "nice" | "ionice" | "stdbuf"
            | "timeout" | "time" | "env" | "xargs" | "sudo" | "doas" => self.through(&base, part),
            "sh" | "bash" | "dash" | "ksh" => self.shell(part),
            "zsh" | "fish" | "csh" | "tcsh" | "nu" | "pwsh" | "elvish" => {
                self.computed("it runs another kind of shell");
                self.part(part);
            }
            "find" => self.find(part),
            _ => {
                part.may_run_rest = MAY_RUN_REST.contains(&base.as_str());
                self.part(part);
            }
        }
    }

    /// A command that runs a text, where that is known.
    fn runs(&mut self, mut part: Part, text: Option<&str>) {
        if text.is_none() {
            self.computed("it runs a text that is computed");
        }
        part.only_runs = text.is_some();
        self.part(part);
        if let Some(text) = text {
            self.nested(text);
        }
    }

    /// The words from `from` on are a script.
    fn script_of(&mut self, part: Part, from: usize) {
        let texts: Option<Vec<&str>> = part.words[from..].iter().map(Word::plain).collect();
        let text = texts.map(|texts| texts.join(" "));
        self.runs(part, text.as_deref());
    }

    fn trap(&mut self, part: Part) {
        match part.words.get(1).map(Word::plain) {
            None | Some(Some("-" | "" | "-p" | "-l")) => self.part(part),
            Some(text) => {
                let text = text.filter(|text| !text.starts_with('-')).map(str::to_owned);
                self.runs(part, text.as_deref());
            }
        }
    }

    /// A shell with a script in its words.
    fn shell(&mut self, part: Part) {
        let mut at = 1;
        while let Some(word) = part.words.get(at) {
            let Some(text) = word.plain() else {
                self.computed("it runs a text that is computed");
                self.part(part);
                return;
            };
            if text == "--" || !text.starts_with('-') {
                break;
            }
            if !text.starts_with("--") && text.contains('c') {
                // What follows the script are its parameters.
                let script = part.words.get(at + 1).and_then(Word::plain).map(str::to_owned);
                let plain = text.chars().skip(1).all(|c| "celux".contains(c));
                self.runs(part, script.filter(|_| plain).as_deref());
                return;
            }
            at += 1;
        }
        if part.words.len() <= at || part.words.iter().any(|word| word.plain() == Some("-s")) {
            self.computed("it runs what is written into a shell");
        }
        self.part(part);
    }

    /// `find`, with what it runs for each file.
    fn find(&mut self, part: Part) {
        let mut inner: Vec<Vec<Word>> = Vec::new();
        let mut words = part.words.iter();
        while let Some(word) = words.next() {
            if matches!(word.plain(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                let run =
                    words.by_ref().take_while(|word| !matches!(word.plain(), Some(";" | "+")));
                inner.push(
                    run.map(|word| match word.text() {
                        Some(text) if text.contains("{}") => Word::computed(),
                        _ => word.clone(),
                    })
                    .collect(),
                );
            }
        }
        self.part(part);
        for words in inner {
            self.simple(Part { words, ..Part::default() });
        }
    }

    /// A command that runs the rest of its words.
    fn through(&mut self, name: &str, mut part: Part) {
        let Some(found) = rest_of(name, &part.words) else {
            self.computed("it runs a command in a way that is not looked through");
            part.may_run_rest = true;
            self.part(part);
            return;
        };
        if found.looks_up {
            self.part(part);
            return;
        }
        let mut words: Vec<Word> = part.words[found.at..].to_vec();
        if let Some(placeholder) = &found.replaced {
            for word in &mut words {
                if word.text().is_none_or(|text| text.contains(placeholder.as_str())) {
                    *word = Word::computed();
                }
            }
        } else if name == "xargs" {
            if words.is_empty() {
                words.push(Word::known("echo"));
            }
            words.push(Word::computed());
        }
        // Who runs another's command as somebody else does more than run it.
        part.only_runs = !matches!(name, "sudo" | "doas");
        let inner = Part { words, sets: found.sets, ..Part::default() };
        if inner.words.is_empty() && inner.sets.is_empty() {
            // It opens files for what follows, or shows what it would run in.
            part.only_runs = name == "exec";
            self.part(part);
            return;
        }
        self.part(part);
        self.simple(inner);
    }
}

/// Where the command begins that another one runs.
struct Rest {
    at: usize,
    sets: Vec<String>,
    replaced: Option<String>,
    looks_up: bool,
}

/// Finds it, where every option before it is one that is known.
fn rest_of(name: &str, words: &[Word]) -> Option<Rest> {
    let mut rest = Rest { at: 1, sets: Vec::new(), replaced: None, looks_up: false };
    while let Some(text) = words.get(rest.at).map(Word::plain) {
        // A word that is not known may be anything.
        let text = text?;
        if text == "--" {
            rest.at += 1;
            break;
        }
        if name == "env" && text == "-" {
            rest.at += 1;
            continue;
        }
        if !text.starts_with('-') || text == "-" {
            break;
        }
        let takes_value = match (name, text) {
            ("command", "-v" | "-V") => {
                rest.looks_up = true;
                return Some(rest);
            }
            ("command" | "time", "-p")
            | ("exec", "-c" | "-l")
            | ("env", "-i" | "--ignore-environment" | "-0" | "--null")
            | ("timeout", "--foreground" | "--preserve-status" | "-v" | "--verbose")
            | ("setsid", "-w" | "--wait" | "-c" | "--ctty" | "-f" | "--fork")
            | ("xargs", "-0" | "--null" | "-r" | "--no-run-if-empty" | "-t" | "-x" | "-p")
            | ("sudo", "-n" | "-E" | "-H" | "-k" | "-S" | "-b") => false,
            ("exec", "-a")
            | ("env", "-u" | "--unset")
            | ("timeout", "-k" | "-s" | "--kill-after" | "--signal")
            | ("nice", "-n" | "--adjustment")
            | ("ionice", "-c" | "-n")
            | ("stdbuf", "-i" | "-o" | "-e")
            | ("xargs", "-n" | "-L" | "-P" | "-s" | "-d" | "-E" | "-a")
            | ("sudo", "-u" | "-g" | "-p")
            | ("doas", "-u") => true,
            ("xargs", "-I") => {
                rest.replaced = Some(words.get(rest.at + 1)?.plain()?.to_owned());
                true
            }
            ("nice", _) if text[1..].bytes().all(|b| b.is_ascii_digit()) => false,
            ("env" | "timeout" | "nice" | "xargs" | "ionice" | "stdbuf", _)
                if is_glued(name, text) =>
            {
                if name == "xargs" && text.starts_with("-I") {
                    rest.replaced = Some(text[2..].to_owned());
                }
                false
            }
            _ => return None,
        };
        rest.at += 1 + usize::from(takes_value);
    }
    if name == "timeout" {
        // How long.
        words.get(rest.at)?.plain()?;
        rest.at += 1;
    }
    if matches!(name, "env" | "sudo" | "doas") {
        while let Some(word) = words.get(rest.at) {
            let Some(set) = word.text().and_then(|text| text.split_once('=')) else {
                word.text()?;
                break;
            };
            rest.sets.push(set.0.to_owned());
            rest.at += 1;
        }
    }
    rest.at = rest.at.min(words.len());
    Some(rest)
}

/// An option whose value stands in the same word, and runs nothing.
fn is_glued(name: &str, text: &str) -> bool {
    let begins: &[&str] = match name {
        "env" => &["--unset="],
        "timeout" => &["--kill-after=", "--signal=", "-k", "-s"],
        "nice" => &["--adjustment=", "-n"],
        "ionice" => &["-c", "-n"],
        "stdbuf" => &["-i", "-o", "-e", "--input=", "--output=", "--error="],
        "xargs" => {
            &["-n", "-L", "-P", "-s", "-d", "-I", "--max-args=", "--max-procs=", "--delimiter="]
        }
        _ => &[],
    };
    begins.iter().any(|begin| text.len() > begin.len() && text.starts_with(begin))
}
