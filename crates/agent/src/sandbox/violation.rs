//! What a wall refused, as far as it can be known: by what was put back, by the proxy, and by what
//! the command's own output says.

use aion_core::sandbox::ViolationKind;

/// Lines of one command's output that are told.
const LINES: usize = 4;
/// Bytes of a line that are told.
const BYTES: usize = 240;
/// What the helper says when it ends a command.
pub(super) const LIMIT: &str = "aion sandbox: ";

/// The kernel's words for what it refuses.
const REFUSALS: &[(&str, ViolationKind)] = &[
    ("Read-only file system", ViolationKind::Refused),
    ("Permission denied", ViolationKind::Refused),
    ("Operation not permitted", ViolationKind::Refused),
    ("Device or resource busy", ViolationKind::Refused),
    ("Network is unreachable", ViolationKind::Network),
    ("Temporary failure in name resolution", ViolationKind::Network),
    ("Resource temporarily unavailable", ViolationKind::Limit),
    ("Cannot allocate memory", ViolationKind::Limit),
    ("File too large", ViolationKind::Limit),
    ("File size limit exceeded", ViolationKind::Limit),
];

/// One thing that was refused or undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// How it is known.
    pub kind: ViolationKind,
    /// What it was, in one line.
    pub what: String,
}

/// What a command's output says of refusals. A command may hide what it was refused, and may speak
/// of what never happened: this is told to people, and nothing depends on it.
pub fn in_words(output: &str) -> Vec<Violation> {
    let mut found: Vec<Violation> = Vec::new();
    for line in output.lines() {
        let kind = if line.starts_with(LIMIT) {
            ViolationKind::Limit
        } else if let Some((_, kind)) = REFUSALS.iter().find(|(words, _)| line.contains(words)) {
            *kind
        } else {
            continue;
        };
        let line = line.trim();
        let what = line[..line.floor_char_boundary(BYTES)].to_owned();
        if !found.iter().any(|known| known.what == what) {
            found.push(Violation { kind, what });
        }
        if found.len() == LINES {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_speak_of_refusals_are_told_once() {
        let output = "ok\ntouch: cannot touch '/x': Read-only file system\n\
                      touch: cannot touch '/x': Read-only file system\n\
                      aion sandbox: more than 3 processes\n";
        let kinds: Vec<_> = in_words(output).into_iter().map(|v| (v.kind, v.what)).collect();
        assert_eq!(
            kinds,
            [
                (ViolationKind::Refused, "touch: cannot touch '/x': Read-only file system".into()),
                (ViolationKind::Limit, "aion sandbox: more than 3 processes".into()),
            ]
        );
        assert_eq!(in_words("all is well\n"), []);
    }
}
