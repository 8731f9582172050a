//! A command's output within a limit: its head and its tail; what lies between is counted.

use std::collections::VecDeque;

/// Collects bytes, keeping the first and the last of them.
#[derive(Debug)]
pub(super) struct HeadAndTail {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: usize,
}

impl HeadAndTail {
    /// Keeps at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { half: limit / 2, head: Vec::new(), tail: VecDeque::new(), dropped: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.dropped += over;
    }

    /// The text, with a line that says what is missing. Cut characters are left out.
    pub(super) fn into_text(self) -> String {
        let tail: Vec<u8> = self.tail.into();
        if self.dropped == 0 {
            return String::from_utf8_lossy(&[self.head, tail].concat()).into_owned();
        }
        let dropped = self.dropped;
        let head = String::from_utf8_lossy(&self.head);
        let head = head.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let tail = String::from_utf8_lossy(&tail);
        let tail = tail.trim_start_matches(char::REPLACEMENT_CHARACTER);
        format!("{head}\n[... {dropped} bytes left out ...]\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_whole_and_long_output_keeps_both_ends() {
        let mut short = HeadAndTail::new(10);
        short.push(b"ab");
        short.push("cdefgä".as_bytes());
        assert_eq!(short.into_text(), "abcdefgä");

        let mut long = HeadAndTail::new(8);
        for chunk in "ä0123456789ä".as_bytes().chunks(3) {
            long.push(chunk);
        }
        assert_eq!(long.into_text(), "ä01\n[... 6 bytes left out ...]\n89ä");
    }
}
