//! Characters that a reader does not see and that can make a text look like another one; it changes
//! no text that is kept.

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
