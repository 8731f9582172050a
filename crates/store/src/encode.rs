//! Turns what a caller hands over into bytes, before anything is queued; it never touches a disk.

use std::time::{SystemTime, UNIX_EPOCH};

use aion_core::event::Recorded;
use aion_core::id::{Seq, TeamId};
use aion_core::transcript::Item;

use crate::chain::sha256_hex;
use crate::error::StoreError;
use crate::event_store::Append;
use crate::projection::{Change, changes};

/// The most bytes that one append, or one commit, may hold.
pub const APPEND_LIMIT: usize = 1024 * 1024;
/// A transcript item over this size is kept in a file of its own.
pub const INLINE_LIMIT: usize = 64 * 1024;

/// An append, serialised.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) team: TeamId,
    pub(crate) epoch: u64,
    pub(crate) expected: Seq,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) changes: Vec<Change>,
    pub(crate) bytes: usize,
    pub(crate) wall_ms: u64,
}

impl Encoded {
    /// Serialises an append, and refuses one that is too large or has a gap in its numbers.
    pub(crate) fn new(append: &Append) -> Result<Self, StoreError> {
        let mut encoded = Self {
            team: append.team.clone(),
            epoch: append.epoch,
            expected: append.expected,
            bodies: Vec::with_capacity(append.events.len()),
            changes: Vec::with_capacity(append.events.len() + 1),
            bytes: 0,
            wall_ms: wall_ms(),
        };
        let mut next = append.expected.next();
        for event in append.events.iter() {
            if event.seq != next {
                return Err(StoreError::Conflict {
                    team: append.team.clone(),
                    expected: event.seq,
                    actual: Seq(next.0 - 1),
                });
            }
            next = next.next();
            let body = body(event)?;
            encoded.bytes += body.len();
            encoded.bodies.push(body);
            changes(event, &mut encoded.changes);
        }
        if encoded.bytes > APPEND_LIMIT {
            return Err(StoreError::TooLarge { bytes: encoded.bytes, limit: APPEND_LIMIT });
        }
        Ok(encoded)
    }
}

/// The stored bytes of one event.
fn body(event: &Recorded) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(event).map_err(|error| StoreError::Unavailable(error.to_string()))
}

/// One transcript item, serialised.
#[derive(Debug)]
pub(crate) enum EncodedItem {
    /// Kept in the row.
    Inline(Vec<u8>),
    /// Kept in a file under the hash of its bytes.
    Blob { sha256: String, bytes: Vec<u8> },
}

impl EncodedItem {
    /// The bytes that go into a commit.
    pub(crate) fn inline_bytes(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Blob { sha256, .. } => sha256.len(),
        }
    }
}

/// Serialises transcript items, and refuses an append that is too large.
pub(crate) fn encode_items(items: &[Item]) -> Result<(Vec<EncodedItem>, usize), StoreError> {
    let mut encoded = Vec::with_capacity(items.len());
    let mut total = 0;
    for item in items {
        let bytes =
            serde_json::to_vec(item).map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let item = if bytes.len() > INLINE_LIMIT {
            EncodedItem::Blob { sha256: sha256_hex(&bytes), bytes }
        } else {
            EncodedItem::Inline(bytes)
        };
        total += item.inline_bytes();
        encoded.push(item);
    }
    if total > APPEND_LIMIT {
        return Err(StoreError::TooLarge { bytes: total, limit: APPEND_LIMIT });
    }
    Ok((encoded, total))
}

/// Wall-clock time in milliseconds since the Unix epoch; for display, never for a decision.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
}
