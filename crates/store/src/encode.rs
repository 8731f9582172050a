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

/// An event in the bytes that the log keeps. Whoever collects events for an append writes them once,
/// and knows by it how much they are.
#[derive(Clone, Debug)]
pub struct Body(Vec<u8>);

impl Body {
    /// Writes an event. One that cannot be written is empty, and the store refuses it.
    pub fn of(event: &Recorded) -> Self {
        Self(serde_json::to_vec(event).unwrap_or_default())
    }

    /// How many bytes it takes in the log.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes alone.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// An append that is in order, with what it changes.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) team: TeamId,
    pub(crate) epoch: u64,
    pub(crate) expected: Seq,
    pub(crate) bodies: Vec<Body>,
    pub(crate) changes: Vec<Change>,
    pub(crate) bytes: usize,
    pub(crate) wall_ms: u64,
}

impl Encoded {
    /// Refuses an append that is too large, has a gap in its numbers, or is not written whole.
    pub(crate) fn new(append: Append) -> Result<Self, StoreError> {
        let Append { team, epoch, expected, events, bodies } = append;
        if bodies.len() != events.len() || bodies.iter().any(|body| body.size() == 0) {
            return Err(StoreError::Unavailable("an event could not be written".to_owned()));
        }
        let mut changed = Vec::with_capacity(events.len() + 1);
        let mut next = expected.next();
        for event in events.iter() {
            if event.seq != next {
                let (expected, actual) = (event.seq, Seq(next.0 - 1));
                return Err(StoreError::Conflict { team, expected, actual });
            }
            next = next.next();
            changes(event, &mut changed);
        }
        let bytes = bodies.iter().map(Body::size).sum();
        if bytes > APPEND_LIMIT {
            return Err(StoreError::TooLarge { bytes, limit: APPEND_LIMIT });
        }
        let wall_ms = wall_ms();
        Ok(Self { team, epoch, expected, bodies, changes: changed, bytes, wall_ms })
    }
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
