//! What may reach a terminal: agents' text without control characters, and colour where it is wanted.

use std::env;
use std::io::{self, IsTerminal};

/// Takes out of a text whatever could act on a terminal or hide something: escape sequences,
/// control characters, characters that turn the direction of writing or show nothing. Line breaks
/// and tabs stay.
pub(crate) fn clean_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_until(&mut chars, |c| ('\u{40}'..='\u{7e}').contains(&c)),
            _ if c.is_control() || is_deceptive(c) => {}
            _ => out.push(c),
        }
    }
    out
}

/// One line of a text that has to be judged: what could act on a terminal or hide something is
/// spelled out, not left away.
pub(crate) fn visible(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match c {
            '\t' => out.push_str("    "),
            _ if c.is_control() || is_deceptive(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
    }
    out
}

/// A text without what could act on a terminal, on one line, at most `max` characters long.
pub(crate) fn clean_line(text: &str, max: usize) -> String {
    let clean = clean_text(text);
    let mut line = String::with_capacity(clean.len());
    for word in clean.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.chars().count() > max {
        let kept: String = line.chars().take(max.saturating_sub(1)).collect();
        return format!("{}…", kept.trim_end());
    }
    line
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Skips what belongs to an escape character that was just read.
fn skip_sequence(chars: &mut Chars<'_>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_until(chars, |c| ('\u{40}'..='\u{7e}').contains(&c));
        }
        // A string command: it ends with BEL or with ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            while let Some(c) = chars.next() {
                if c == '\u{7}' || c == '\u{9c}' {
                    return;
                }
                if c == '\u{1b}' {
                    if chars.peek() == Some(&'\\') {
                        chars.next();
                    }
                    return;
                }
            }
        }
        Some(c) if ('\u{20}'..='\u{7e}').contains(c) => {
            skip_until(chars, |c| ('\u{30}'..='\u{7e}').contains(&c));
        }
        Some(_) | None => {}
    }
}

fn skip_until(chars: &mut Chars<'_>, last: impl Fn(char) -> bool) {
    while let Some(c) = chars.peek() {
        // A sequence never spans lines; what looks like one that does was cut off.
        if *c == '\n' {
            return;
        }
        let ends = last(*c);
        chars.next();
        if ends {
            return;
        }
    }
}

fn is_deceptive(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Whether standard output is a terminal on which lines may be drawn again.
pub(crate) fn is_screen() -> bool {
    io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How text is decorated; not at all where it was not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    colour: bool,
}

impl Paint {
    /// No decoration.
    #[cfg(test)]
    pub(crate) const PLAIN: Self = Self { colour: false };
    /// Decoration, whatever the surroundings.
    #[cfg(test)]
    pub(crate) const COLOUR: Self = Self { colour: true };

    /// As standard output wants it: colour on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn of_stdout() -> Self {
        let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self { colour: is_screen() && !unwanted }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Stands out.
    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }
    /// Stands back.
    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }
    /// Went well.
    pub(crate) fn good(self, text: &str) -> String {
        self.wrap("32", text)
    }
    /// Wants somebody's attention.
    pub(crate) fn warn(self, text: &str) -> String {
        self.wrap("33", text)
    }
    /// Went wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.wrap("31", text)
    }
    /// A member, in its own colour.
    pub(crate) fn member(self, colour: &str, text: &str) -> String {
        let code = match colour {
            "indigo" => "38;5;105",
            "umber" => "38;5;173",
            "teal" => "38;5;37",
            "magenta" => "38;5;170",
            "olive" => "38;5;142",
            "violet" => "38;5;141",
            "brick" => "38;5;167",
            "slate" => "38;5;103",
            "red" => "31",
            "green" => "32",
            "yellow" => "33",
            "blue" => "34",
            "cyan" => "36",
            _ => "1",
        };
        self.wrap(code, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_on_a_terminal_gets_through() {
        let check = |given: &str, expect: &str| assert_eq!(clean_text(given), expect, "{given:?}");
        check("plain ünïcödé 漢字 ✓", "plain ünïcödé 漢字 ✓");
        check("two\r\nlines\tand a tab", "two\nlines\tand a tab");
        check("\u{1b}[31mred\u{1b}[0m", "red");
        check("\u{1b}[2J\u{1b}[Hgone", "gone");
        check("\u{1b}]0;title\u{7}after", "after");
        check("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link");
        check("\u{1b}P1$r\u{1b}\\device", "device");
        check("\u{9b}31mc1", "c1");
        check("over\rwrite", "overwrite");
        check("back\u{8}\u{8}space and bell\u{7}", "backspace and bell");
        check("\u{1b}(0line", "line");
        check("\u{1b}7saved", "saved");
        check("right\u{202e}left\u{2066}", "rightleft");
        check("zero\u{200b}width\u{feff}", "zerowidth");
        check("cut off \u{1b}[31", "cut off ");
        check("cut \u{1b}[\nnext line", "cut \nnext line");
        check("\u{1b}", "");
    }

    #[test]
    fn what_is_judged_hides_nothing() {
        let hidden = "a\tb\rc\u{1b}[8md\u{202e}e\u{200b}f";
        assert_eq!(visible(hidden), r"a    b\u{d}c\u{1b}[8md\u{202e}e\u{200b}f");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(clean_line("a\n  b\tc  ", 80), "a b c");
        assert_eq!(clean_line("abcdef", 4), "abc…");
        assert_eq!(clean_line("abcd", 4), "abcd");
        assert_eq!(clean_line("", 4), "");
    }

    #[test]
    fn paint_is_off_unless_asked_for() {
        assert_eq!(Paint::PLAIN.bold("x"), "x");
        assert_eq!(Paint::COLOUR.bold("x"), "\u{1b}[1mx\u{1b}[0m");
        assert_eq!(Paint::COLOUR.member("cyan", "x"), "\u{1b}[36mx\u{1b}[0m");
    }
}
