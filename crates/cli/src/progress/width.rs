//! How wide a text is on a terminal, and how to cut it there.

/// Stands before the rest of a line that was too long.
const CONTINUED: &str = "┆ ";

/// Columns of a character, as nearly as a table of ranges tells.
fn columns(c: char) -> usize {
    let wide = matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60
        | 0xffe0..=0xffe6 | 0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd);
    let mark =
        matches!(u32::from(c), 0x300..=0x36f | 0x1ab0..=0x1aff | 0x20d0..=0x20ff | 0xfe00..=0xfe0f);
    match (mark, wide) {
        (true, _) => 0,
        (false, true) => 2,
        (false, false) => 1,
    }
}

/// Columns of a text without escape sequences.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// The beginning of a text that fits; an ellipsis says that something is missing.
pub(super) fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        if used + columns(c) + 1 > most {
            break;
        }
        used += columns(c);
        out.push(c);
    }
    out.push('…');
    out
}

/// A text on as many lines as it takes; the mark before each but the first tells them from lines of
/// the text itself.
pub(super) fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for c in text.chars() {
        if used + columns(c) > most {
            lines.push(CONTINUED.to_owned());
            used = width(CONTINUED);
        }
        used += columns(c);
        if let Some(line) = lines.last_mut() {
            line.push(c);
        }
    }
    lines
}

/// A text filled up with spaces.
pub(super) fn fill(text: &str, to: usize) -> String {
    let gap = to.saturating_sub(width(text));
    format!("{text}{}", " ".repeat(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(wrap("abcdef", 6), ["abcdef"]);
        assert_eq!(wrap("abcdefgh", 4), ["abcd", "┆ ef", "┆ gh"]);
        assert_eq!(wrap("漢字漢", 5), ["漢字", "┆ 漢"]);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(fill("漢", 4), "漢  ");
    }
}
