//! Cuts the bytes of an answer into frames: server-sent events or lines; never understands them.

use crate::provider::ProviderError;

use super::broken;

/// The most bytes of one frame.
const FRAME_BYTES: usize = 16 * 1024 * 1024;

/// How frames are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::models) enum Shape {
    /// Server-sent events.
    Events,
    /// One JSON text a line.
    Lines,
}

/// One frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::models) struct Frame {
    /// The event's name, where it has one.
    pub(in crate::models) event: String,
    /// The data.
    pub(in crate::models) data: String,
}

/// Takes bytes as they come, and gives frames as they are complete.
#[derive(Debug)]
pub(in crate::models) struct Frames {
    shape: Shape,
    /// Bytes without a line's end.
    rest: Vec<u8>,
    /// The event that is being read, and whether it has data.
    open: Frame,
    has_data: bool,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    returned: bool,
    started: bool,
}

impl Frames {
    /// Nothing read yet.
    pub(in crate::models) fn new(shape: Shape) -> Self {
        Self {
            shape,
            rest: Vec::new(),
            open: Frame::default(),
            has_data: false,
            returned: false,
            started: false,
        }
    }

    /// Takes bytes.
    pub(in crate::models) fn feed(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<Frame>,
    ) -> Result<(), ProviderError> {
        let mut bytes = bytes;
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.returned) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                self.rest.extend_from_slice(bytes);
                break;
            };
            self.rest.extend_from_slice(&bytes[..end]);
            self.returned = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.rest);
            self.line(&line, out)?;
        }
        Self::check(self.rest.len())
    }

    /// The connection ended: what stands without a line's end may be whole.
    pub(in crate::models) fn finish(&mut self, out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let line = std::mem::take(&mut self.rest);
        match self.shape {
            // An event that no empty line closed was cut.
            Shape::Events => Ok(()),
            Shape::Lines => self.line(&line, out),
        }
    }

    fn line(&mut self, line: &[u8], out: &mut Vec<Frame>) -> Result<(), ProviderError> {
        let line = std::str::from_utf8(line).map_err(|_| broken("the answer is not UTF-8"))?;
        let line = if self.started { line } else { line.trim_start_matches('\u{feff}') };
        self.started = true;
        match self.shape {
            Shape::Lines if line.trim().is_empty() => {}
            Shape::Lines => out.push(Frame { event: String::new(), data: line.to_owned() }),
            Shape::Events if line.is_empty() => {
                let frame = std::mem::take(&mut self.open);
                if std::mem::take(&mut self.has_data) {
                    out.push(frame);
                }
            }
            Shape::Events => {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "event" => value.clone_into(&mut self.open.event),
                    "data" => {
                        if std::mem::replace(&mut self.has_data, true) {
                            self.open.data.push('\n');
                        }
                        self.open.data.push_str(value);
                        Self::check(self.open.data.len())?;
                    }
                    // Comments keep the connection; ids and retries are for those who reconnect.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn check(bytes: usize) -> Result<(), ProviderError> {
        if bytes > FRAME_BYTES {
            return Err(broken(format!(
                "one piece of the answer is over the limit of {FRAME_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(event: &str, data: &str) -> Frame {
        Frame { event: event.into(), data: data.into() }
    }

    #[track_caller]
    fn check(shape: Shape, text: &str, expect: &[Frame]) {
        for size in 1..=text.len() {
            let mut frames = Frames::new(shape);
            let mut out = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                frames.feed(piece, &mut out).unwrap();
            }
            frames.finish(&mut out).unwrap();
            assert_eq!(out, expect, "in pieces of {size} bytes");
        }
    }

    #[test]
    fn events_are_the_same_however_their_bytes_arrive() {
        check(
            Shape::Events,
            "\u{feff}: hello\nevent: a\ndata: {\"x\":\ndata:1}\n\r\ndata: ä€\r\n\r\nevent: b\n\n\
             id: 3\rdata: last\r\rdata: cut",
            &[frame("a", "{\"x\":\n1}"), frame("", "ä€"), frame("", "last")],
        );
    }

    #[test]
    fn lines_are_the_same_however_their_bytes_arrive() {
        check(
            Shape::Lines,
            "{\"a\":\"ü\"}\n\n{\"b\":1}\r\n{\"c\":2}",
            &[frame("", "{\"a\":\"ü\"}"), frame("", "{\"b\":1}"), frame("", "{\"c\":2}")],
        );
    }

    #[test]
    fn what_is_not_text_is_broken() {
        let mut out = Vec::new();
        let read = Frames::new(Shape::Events).feed(b"data: \xff\n", &mut out);
        assert!(matches!(read, Err(ProviderError::Broken(_))));
    }
}
