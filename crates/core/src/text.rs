//! Characters that a reader does not see and that can make a text look like another one; it changes
//! no text that is kept.

use std::fmt::Write;

/// Whether a character cannot be seen, or changes how others are seen: controls, format characters,
/// and what reverses the order of writing. A line's end is one of them.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}' | '\u{1160}'
            | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// A text of somebody else as a model is shown it: what cannot be seen is written out, so that it
/// neither hides nor reverses anything. Lines and tabs stay, and so does what joins the parts of one
/// sign in scripts that need it.
#[must_use]
pub fn shown(text: &str) -> String {
    if !text.chars().any(is_unseen) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut before = None;
    while let Some(c) = chars.next() {
        let line_end = c == '\r' && chars.peek() == Some(&'\n');
        let joins = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}')
            && before.is_some_and(|before: char| !before.is_ascii() && !is_unseen(before));
        if matches!(c, '\n' | '\t') || line_end || joins || !is_unseen(c) {
            out.push(c);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        }
        before = Some(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_written_out_and_nothing_else_changes() {
        let check = |text: &str, expect: &str| assert_eq!(shown(text), expect, "{text:?}");
        check(
            "plain\n\ttext: ä 漢字 👩\u{200d}💻 ❤\u{fe0f}",
            "plain\n\ttext: ä 漢字 👩\u{200d}💻 ❤\u{fe0f}",
        );
        check("a\r\nb", "a\r\nb");
        check("a\rb", "a\\u{d}b");
        check("\u{1b}[2J", "\\u{1b}[2J");
        check("\u{9b}31m", "\\u{9b}31m");
        check("a\u{202e}b", "a\\u{202e}b");
        check("a\u{200b}b\u{200d}c", "a\\u{200b}b\\u{200d}c");
        check("ä\u{200d}\u{200d}b", "ä\u{200d}\\u{200d}b");
        check("\u{e0041}x\u{feff}", "\\u{e0041}x\\u{feff}");
    }
}
