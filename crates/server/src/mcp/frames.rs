//! Frames: a length of four bytes, the higher ones first, and so many bytes of JSON; it never knows
//! what they say.

use std::io;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// The largest frame that a client may send.
pub(crate) const FRAME_BYTES: u32 = 1024 * 1024;
/// How long a frame that has begun may take, in either direction.
const FRAME_TIME: Duration = Duration::from_secs(30);
/// What is set aside for a frame before its bytes are there.
const FIRST_BYTES: u32 = 16 * 1024;

/// Why there is no frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The client has gone, between two frames.
    #[error("the client has closed the connection")]
    Closed,
    /// The client has gone, within a frame.
    #[error("the connection ended within a frame")]
    Half,
    /// The frame is larger than allowed.
    #[error("a frame of {0} bytes; the largest has {FRAME_BYTES}")]
    TooLarge(u32),
    /// The frame did not come to its end.
    #[error("a frame took longer than {} s", FRAME_TIME.as_secs())]
    Slow,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

/// Reads one frame. It may begin whenever it likes; then it has to go on.
pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, FrameError> {
    let mut length = [0_u8; 4];
    if from.read(&mut length[..1]).await? == 0 {
        return Err(FrameError::Closed);
    }
    timeout(FRAME_TIME, rest(from, length)).await.unwrap_or(Err(FrameError::Slow))
}

async fn rest(
    from: &mut (impl AsyncRead + Unpin),
    mut length: [u8; 4],
) -> Result<Vec<u8>, FrameError> {
    let half = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FrameError::Half,
        _ => FrameError::Io(error),
    };
    from.read_exact(&mut length[1..]).await.map_err(half)?;
    let length = u32::from_be_bytes(length);
    if length > FRAME_BYTES {
        return Err(FrameError::TooLarge(length));
    }
    // Grows with what arrives, not with what is announced.
    let mut bytes = Vec::with_capacity(length.min(FIRST_BYTES) as usize);
    from.take(length.into()).read_to_end(&mut bytes).await.map_err(half)?;
    if bytes.len() < length as usize {
        return Err(FrameError::Half);
    }
    Ok(bytes)
}

/// A message as the bytes of its frame, so that one write sends it whole.
pub(crate) fn encode(message: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![0_u8; 4];
    // What is sent is made of maps with text keys, and memory cannot refuse to be written.
    let _ = serde_json::to_writer(&mut bytes, message);
    let length = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Sends the bytes of a frame.
pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(FRAME_TIME, to.write_all(frame)).await.map_err(late)?
}
