//! Lines of an agent's output, as long as they may be; one that is longer is passed over, and never
//! ends the connection.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// The longest line that is taken.
pub(super) const LINE_BYTES: usize = 64 * 1024 * 1024;
/// What is kept of the room that a long line needed.
const KEPT_BYTES: usize = 256 * 1024;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Its bytes, whatever they are.
    Whole(&'a [u8]),
    /// It was longer than a line may be; said when that is known, and once.
    TooLong,
}

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    line: Vec<u8>,
    /// The rest of a line that is too long is on its way.
    passing_over: bool,
    most: usize,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(super) fn new(from: R, most: usize) -> Self {
        Self { from, line: Vec::new(), passing_over: false, most }
    }

    /// The next line; none at the end. The last line may lack its end.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        self.line.shrink_to(KEPT_BYTES);
        loop {
            let chunk = self.from.fill_buf().await?;
            if chunk.is_empty() {
                return Ok((!self.line.is_empty()).then_some(Line::Whole(&self.line)));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let (piece, used) = match end {
                Some(end) => (&chunk[..end], end + 1),
                None => (chunk, chunk.len()),
            };
            let fits = self.line.len() + piece.len() <= self.most;
            if fits && !self.passing_over {
                self.line.extend_from_slice(piece);
            }
            self.from.consume(used);
            let ended = end.is_some();
            match (self.passing_over, fits, ended) {
                (true, _, _) => self.passing_over = !ended,
                (false, true, true) => return Ok(Some(Line::Whole(&self.line))),
                (false, true, false) => {}
                (false, false, _) => {
                    self.passing_over = !ended;
                    self.line.clear();
                    return Ok(Some(Line::TooLong));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::BufReader;

    use super::*;

    /// Reads all lines of at most 8 bytes, by 3 bytes at a time.
    async fn read(text: &[u8]) -> Vec<String> {
        let mut lines = Lines::new(BufReader::with_capacity(3, text), 8);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::TooLong => "(too long)".to_owned(),
            });
        }
        all
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_costs_nothing_but_itself() {
        assert_eq!(read(b"one\n\ntwo\n").await, ["one", "", "two"]);
        assert_eq!(read(b"12345678\n123456789\nnext\n").await, ["12345678", "(too long)", "next"]);
        assert_eq!(read(b"123456789012345678901234567890\nnext").await, ["(too long)", "next"]);
        assert_eq!(read(b"without end").await, ["(too long)"]);
        assert_eq!(read(b"last").await, ["last"]);
        assert_eq!(read(b"").await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn bytes_that_are_no_text_are_a_line() {
        assert_eq!(read(b"a\xff\nb\n").await, ["a\u{fffd}", "b"]);
    }
}
